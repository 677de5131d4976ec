package telemetry

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources are figures that other parts keep. The functions are called when
// somebody asks for the figures, from any goroutine, and must not wait; nil
// ones are left out.
type Sources struct {
	SessionsOwned func() int
	SessionsHeld  func() int
	SessionBytes  func() int64

	// Of the session engine, all since the start.
	Divergence     func() uint64
	MergeConflicts func() uint64
	Takeovers      func() uint64
	Expired        func() uint64
	Evicted        func() uint64
	Degraded       func() uint64
	Repaired       func() uint64

	// Of the store on disk: whether it keeps all that this agent holds, and how
	// large its log is.
	StoreWhole func() bool
	StoreBytes func() int64

	SlotsShort   func() int
	SlotsFilling func() int
	// FillLeft is how many records members still lack, at most; the others are of
	// those sent to them since the start.
	FillLeft    func() int
	Filled      func() uint64
	FilledBytes func() uint64
	// ClockOffset is what is added to the wall clock in stamps.
	ClockOffset func() time.Duration
	RingEpoch   func() uint64
	// Members returns how many members there are in each status.
	Members func() map[string]int
	// GossipHealth is memberlist's score: 0 is well, more is slower to answer.
	GossipHealth func() int
	// Leader reports whether this agent leads.
	Leader func() bool

	// Certificates returns those that the proxy shows.
	Certificates func() []Certificate

	// Of the proxy: all three or none.
	ProxyConnections func() Connections
	ProxyInstances   func() []Instance
	ProxyWaiting     func() map[string]int // requests that stand in line, by route

	// AccessLogDropped is how many lines of the access log were lost.
	AccessLogDropped func() uint64

	// Of the transport between agents, all since the start.
	MessagesDropped   func() uint64
	PeersUnreachable  func() uint64
	ConnectionsBroken func() uint64
	ConnectionsTurned func() uint64
}

// Watch publishes the sources. It is called once, before anybody asks.
func (m *Metrics) Watch(s Sources) error {
	var all []prometheus.Collector
	gauge := func(name, help string, f func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	total := func(name, help string, f func() uint64) {
		if f != nil {
			all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
				func() float64 { return float64(f()) }))
		}
	}
	if f := s.SessionsOwned; f != nil {
		gauge("rondel_sessions_owned", "Sessions that this agent owns.", func() float64 { return float64(f()) })
	}
	if f := s.SessionsHeld; f != nil {
		gauge("rondel_sessions_held", "Sessions of which this agent holds a copy, owned ones included.",
			func() float64 { return float64(f()) })
	}
	if f := s.SessionBytes; f != nil {
		gauge("rondel_session_bytes", "Size of the contents of all sessions held.", func() float64 { return float64(f()) })
	}
	if f := s.StoreWhole; f != nil {
		gauge("rondel_store_whole", "1 while all sessions held are on disk; 0 while they are in memory only.", func() float64 {
			if f() {
				return 1
			}
			return 0
		})
	}
	if f := s.StoreBytes; f != nil {
		gauge("rondel_store_log_bytes", "Size of the log of sessions on disk.", func() float64 { return float64(f()) })
	}
	if f := s.SlotsShort; f != nil {
		gauge("rondel_slots_short", "Slots that this agent owns or is to hold and that lack some of their copies.",
			func() float64 { return float64(f()) })
	}
	if f := s.SlotsFilling; f != nil {
		gauge("rondel_slots_filling", "Slots of which this agent is sending a copy to a member that lacks it.",
			func() float64 { return float64(f()) })
	}
	if f := s.FillLeft; f != nil {
		gauge("rondel_fill_records_left", "Records that this agent has still to send to members that lack a copy, at most.",
			func() float64 { return float64(f()) })
	}
	if f := s.ClockOffset; f != nil {
		gauge("rondel_clock_offset_seconds", "What this agent adds to its wall clock in stamps, as it differs from most others'.",
			func() float64 { return f().Seconds() })
	}
	if f := s.RingEpoch; f != nil {
		gauge("rondel_ring_epoch", "Epoch of the ring that this agent goes by.", func() float64 { return float64(f()) })
	}
	if f := s.GossipHealth; f != nil {
		gauge("rondel_gossip_health", "0 while this agent answers gossip in time; higher the later it does.",
			func() float64 { return float64(f()) })
	}
	if f := s.Leader; f != nil {
		gauge("rondel_leader", "1 while this agent leads.", func() float64 {
			if f() {
				return 1
			}
			return 0
		})
	}
	if f := s.Members; f != nil {
		all = append(all, &members{count: f, desc: prometheus.NewDesc("rondel_gossip_members",
			"Members as this agent sees them.", []string{"status"}, nil)})
	}
	if f := s.Certificates; f != nil {
		all = append(all, newCertificates(f))
	}
	if s.ProxyConnections != nil {
		all = append(all, newProxied(&s))
	}
	total("rondel_access_log_dropped_total", "Lines of the access log that were lost as nobody took them.", s.AccessLogDropped)
	total("rondel_insync_divergence_total", "In-sync copies of a session that were found to differ. Anything but 0 is a bug or damaged memory.", s.Divergence)
	total("rondel_merge_conflict_total", "Attributes that both sides of a partition had changed.", s.MergeConflicts)
	total("rondel_slot_takeovers_total", "Slots that this agent has begun to serve.", s.Takeovers)
	total("rondel_sessions_expired_total", "Sessions that ended by their TTL or MaxAge here.", s.Expired)
	total("rondel_sessions_evicted_total", "Sessions ended because session.max_count was reached here.", s.Evicted)
	total("rondel_session_degraded_writes_total", "Writes answered before all copies had them.", s.Degraded)
	total("rondel_session_repaired_total", "Records sent again to a copy that lacked them.", s.Repaired)
	total("rondel_fill_records_total", "Records sent to members that lacked a copy of their slot, and confirmed.", s.Filled)
	total("rondel_fill_bytes_total", "Size of those records, about.", s.FilledBytes)
	total("rondel_wire_dropped_total", "Messages to other agents dropped because their queue was full or refused.", s.MessagesDropped)
	total("rondel_wire_unreachable_total", "Failed attempts to reach another agent, and connections lost.", s.PeersUnreachable)
	total("rondel_wire_broken_total", "Connections closed for bytes that were not the protocol's.", s.ConnectionsBroken)
	total("rondel_wire_turned_away_total", "Connections turned away: another boot, member, cluster or version.", s.ConnectionsTurned)
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return fmt.Errorf("publish figures: %w", err)
		}
	}
	return nil
}

// members shows a count per status.
type members struct {
	count func() map[string]int
	desc  *prometheus.Desc
}

func (m *members) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

func (m *members) Collect(ch chan<- prometheus.Metric) {
	for status, n := range m.count() {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(n), status)
	}
}
