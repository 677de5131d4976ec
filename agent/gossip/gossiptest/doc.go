// Package gossiptest is a network in memory for tests of gossip. It implements
// memberlist's transport with addresses that need not exist, runs in fake time
// (testing/synctest), and can be cut, slowed and made to lose packets.
//
// It drops and never blocks: a packet for a member that is gone, cut off or
// does not read is lost, as on a real network. Only tests import it.
package gossiptest
