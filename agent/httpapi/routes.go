package httpapi

// What the queries of several endpoints have.
const (
	waits   = "index wait"
	reads   = "consistency touch"
	changes = "acks"
)

// table lists every endpoint.
func (s *Server) table() []route {
	return []route{
		{"GET", "/v1/agent/self", s.agentSelf, ""},
		{"GET", "/v1/agent/members", s.agentMembers, waits},
		{"PUT", "/v1/agent/join/:addr", s.agentJoin, ""},
		{"PUT", "/v1/agent/leave", s.agentLeave, "force"},
		{"PUT", "/v1/agent/force-leave/:node", s.agentForceLeave, "prune"},
		{"PUT", "/v1/agent/drain", s.agentDrain, "enable node"},
		{"PUT", "/v1/agent/reload", s.agentReload, ""},
		{"GET", "/v1/agent/services", s.agentServices, ""},
		{"PUT", "/v1/agent/service/register", s.serviceRegister, ""},
		{"PUT", "/v1/agent/service/deregister/:id", s.serviceDeregister, ""},
		{"PUT", "/v1/agent/service/maintenance/:id", s.serviceMaintenance, "enable drain reason deadline"},
		{"PUT", "/v1/agent/service/load/:id", s.serviceLoad, ""},
		{"PUT", "/v1/agent/service/weight/:id", s.serviceWeight, ""},
		{"PUT", "/v1/agent/check/pass/:id", s.checkReport("passing"), "note"},
		{"PUT", "/v1/agent/check/warn/:id", s.checkReport("warning"), "note"},
		{"PUT", "/v1/agent/check/fail/:id", s.checkReport("critical"), "note"},
		{"GET", "/v1/agent/monitor", s.agentMonitor, "loglevel logjson"},
		{"GET", "/v1/agent/metrics", s.agentMetrics, "format"},

		{"GET", "/v1/health/agent", s.healthAgent, "serving"},
		{"GET", "/v1/status/leader", s.statusLeader, ""},
		{"GET", "/v1/status/peers", s.statusPeers, ""},
		{"GET", "/v1/ring", s.ringShow, waits},
		{"GET", "/v1/ring/locate/:key", s.ringLocate, ""},
		{"PUT", "/v1/ring/rebalance", s.ringRebalance, ""},
		{"PUT", "/v1/ring/move", s.ringMove, "slots from to"},
		{"GET", "/v1/catalog/services", s.catalogServices, waits},
		{"GET", "/v1/catalog/service/:name", s.catalogService, waits + " passing"},
		{"GET", "/v1/operator/raft/configuration", s.raftConfiguration, ""},
		{"GET", "/v1/event/stream", s.eventStream, ""},

		{"POST", "/v1/sessions", s.sessionCreate, changes},
		{"GET", "/v1/sessions", s.sessionList, "prefix group principal limit after"},
		{"GET", "/v1/sessions/:id", s.sessionGet, reads},
		{"PATCH", "/v1/sessions/:id", s.sessionPatch, changes},
		{"PUT", "/v1/sessions/:id", s.sessionPut, changes},
		{"DELETE", "/v1/sessions/:id", s.sessionDelete, changes},
		{"POST", "/v1/sessions/:id/touch", s.sessionTouch, changes},
		{"POST", "/v1/sessions/:id/rotate", s.sessionRotate, changes},
		{"GET", "/v1/sessions/:id/attributes/:name", s.attributeGet, reads},
		{"PUT", "/v1/sessions/:id/attributes/:name", s.attributePut, changes},
		{"DELETE", "/v1/sessions/:id/attributes/:name", s.attributeDelete, changes},
		{"POST", "/v1/sessions/:id/attributes/:name/incr", s.attributeIncr, changes},
		{"POST", "/v1/sessions/:id/attributes/:name/append", s.attributeAppend, changes},
	}
}
