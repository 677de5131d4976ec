package config

// ProxyLimitsFile is the block "limits" of the section "proxy".
type ProxyLimitsFile struct {
	RequestHead          *Size `opt:"request_head"`
	ResponseHead         *Size `opt:"response_head"`
	RequestBody          *Size `opt:"request_body"`
	MinRate              *Size `opt:"min_rate"`
	Connections          *int  `opt:"connections"`
	ConnectionsPerClient *int  `opt:"connections_per_client"`
	IdlePerInstance      *int  `opt:"idle_per_instance"`
}

// ProxyLimits bound what clients and instances can make the proxy hold. 0 means
// no limit, where it is allowed.
type ProxyLimits struct {
	RequestHead          int64 `opt:"proxy.limits.request_head,reload"`
	ResponseHead         int64 `opt:"proxy.limits.response_head,reload"`
	RequestBody          int64 `opt:"proxy.limits.request_body,reload"`
	MinRate              int64 `opt:"proxy.limits.min_rate,reload"` // bytes a second
	Connections          int   `opt:"proxy.limits.connections,reload"`
	ConnectionsPerClient int   `opt:"proxy.limits.connections_per_client,reload"`
	IdlePerInstance      int   `opt:"proxy.limits.idle_per_instance,reload"`
}

func defaultProxyLimits() *ProxyLimitsFile {
	return &ProxyLimitsFile{
		RequestHead: ptr(Size(64 << 10)), ResponseHead: ptr(Size(256 << 10)), RequestBody: ptr(Size(0)), MinRate: ptr(Size(0)),
		Connections: ptr(0), ConnectionsPerClient: ptr(0), IdlePerInstance: ptr(256),
	}
}

func (f *ProxyLimitsFile) runtime(c *checker) ProxyLimits {
	const most = 1 << 40
	// A head is kept as a whole, for each connection that sends one.
	c.sizeBetween("proxy.limits.request_head", *f.RequestHead, 4<<10, 16<<20)
	c.sizeBetween("proxy.limits.response_head", *f.ResponseHead, 4<<10, 16<<20)
	c.sizeBetween("proxy.limits.request_body", *f.RequestBody, 0, most)
	c.sizeBetween("proxy.limits.min_rate", *f.MinRate, 0, 1<<30)
	c.between("proxy.limits.connections", *f.Connections, 0, 1<<30)
	c.between("proxy.limits.connections_per_client", *f.ConnectionsPerClient, 0, 1<<30)
	c.between("proxy.limits.idle_per_instance", *f.IdlePerInstance, 0, 1<<20)
	return ProxyLimits{
		RequestHead: int64(*f.RequestHead), ResponseHead: int64(*f.ResponseHead), RequestBody: int64(*f.RequestBody), MinRate: int64(*f.MinRate),
		Connections: *f.Connections, ConnectionsPerClient: *f.ConnectionsPerClient, IdlePerInstance: *f.IdlePerInstance,
	}
}

// RouteLimitsFile is the block "limits" of a route.
type RouteLimitsFile struct {
	RequestBody *Size `opt:"request_body"`
}

// RouteLimits are a route's own; 0 means the proxy's.
type RouteLimits struct{ RequestBody int64 }

func defaultRouteLimits() *RouteLimitsFile { return &RouteLimitsFile{RequestBody: ptr(Size(0))} }

func (f *RouteLimitsFile) runtime(c *checker, at string) RouteLimits {
	c.sizeBetween(at+".request_body", *f.RequestBody, 0, 1<<40)
	return RouteLimits{RequestBody: int64(*f.RequestBody)}
}
