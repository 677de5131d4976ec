package config

// PortsFile is the section "ports".
type PortsFile struct {
	HTTP   *int `opt:"http"`
	Gossip *int `opt:"gossip"`
	RPC    *int `opt:"rpc"`
}

func defaultPorts() *PortsFile {
	return &PortsFile{HTTP: ptr(8700), Gossip: ptr(8701), RPC: ptr(8702)}
}

func (f *PortsFile) check(c *checker) {
	for option, port := range map[string]int{"ports.http": *f.HTTP, "ports.gossip": *f.Gossip, "ports.rpc": *f.RPC} {
		c.between(option, port, 0, 65535)
	}
}
