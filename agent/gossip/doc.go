// Package gossip tells an agent which other agents are there, and spreads what
// each of them has to say about itself.
//
// It wraps memberlist. It owns the list of members with their status, the
// entries of records that members spread, the file of known peers, and the
// gossip port. What it promises:
//
//   - A member killed without a word is Failed everywhere within the time of
//     the profile; a member that restarts within that time is seen by its new
//     boot. Failed and Left members stay in the list.
//   - Failed members are dialled for ever, so that a healed partition becomes
//     one cluster again without anybody's help.
//   - One name belongs to one member id. A newcomer whose name is taken stops
//     with ErrNameTaken; the one that was there first is not disturbed.
//   - Agents of another cluster, or with other keys, are refused at the first
//     byte of a connection, and both sides learn why.
//   - Records of one member are applied by all others in the order in which
//     that member wrote them; a gap is filled by fetching the whole entry.
//     Callbacks tell the newest value of a key, and may skip older ones.
//   - No callback is made with a lock held or from within memberlist.
//
// Suspicion is not shown: memberlist keeps it to itself, so a member is Alive
// until it is Failed.
//
// It decides nothing: who owns what is the leader's work, by way of raft. A
// member that gossip calls Alive may still be out of reach for this agent.
// What travels here is no secret without an encryption key and never contains
// sessions. The library's goroutines start in New and end up to a few seconds
// after Run or Close has returned, since its timers run out by themselves.
package gossip
