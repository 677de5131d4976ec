package httpapi

// table lists every endpoint.
func (s *Server) table() []route {
	return []route{
		{"GET", "/v1/agent/self", s.agentSelf},
		{"GET", "/v1/agent/members", s.agentMembers},
		{"PUT", "/v1/agent/join/:addr", s.agentJoin},
		{"PUT", "/v1/agent/leave", s.agentLeave},
		{"PUT", "/v1/agent/force-leave/:node", s.agentForceLeave},
		{"PUT", "/v1/agent/reload", s.agentReload},
		{"GET", "/v1/agent/services", s.agentServices},
		{"PUT", "/v1/agent/service/register", s.serviceRegister},
		{"PUT", "/v1/agent/service/deregister/:id", s.serviceDeregister},
		{"PUT", "/v1/agent/service/maintenance/:id", s.serviceMaintenance},
		{"PUT", "/v1/agent/service/load/:id", s.serviceLoad},
		{"PUT", "/v1/agent/check/pass/:id", s.checkReport("passing")},
		{"PUT", "/v1/agent/check/warn/:id", s.checkReport("warning")},
		{"PUT", "/v1/agent/check/fail/:id", s.checkReport("critical")},
		{"GET", "/v1/agent/monitor", s.agentMonitor},
		{"GET", "/v1/agent/metrics", s.agentMetrics},

		{"GET", "/v1/health/agent", s.healthAgent},
		{"GET", "/v1/status/leader", s.statusLeader},
		{"GET", "/v1/status/peers", s.statusPeers},
		{"GET", "/v1/ring", s.ringShow},
		{"GET", "/v1/ring/locate/:key", s.ringLocate},
		{"GET", "/v1/catalog/services", s.catalogServices},
		{"GET", "/v1/catalog/service/:name", s.catalogService},
		{"GET", "/v1/operator/raft/configuration", s.raftConfiguration},
		{"GET", "/v1/event/stream", s.eventStream},

		{"POST", "/v1/sessions", s.sessionCreate},
		{"GET", "/v1/sessions", s.sessionList},
		{"GET", "/v1/sessions/:id", s.sessionGet},
		{"PATCH", "/v1/sessions/:id", s.sessionPatch},
		{"PUT", "/v1/sessions/:id", s.sessionPut},
		{"DELETE", "/v1/sessions/:id", s.sessionDelete},
		{"POST", "/v1/sessions/:id/touch", s.sessionTouch},
		{"POST", "/v1/sessions/:id/rotate", s.sessionRotate},
		{"GET", "/v1/sessions/:id/attributes/:name", s.attributeGet},
		{"PUT", "/v1/sessions/:id/attributes/:name", s.attributePut},
		{"DELETE", "/v1/sessions/:id/attributes/:name", s.attributeDelete},
		{"POST", "/v1/sessions/:id/attributes/:name/incr", s.attributeIncr},
		{"POST", "/v1/sessions/:id/attributes/:name/append", s.attributeAppend},
	}
}
