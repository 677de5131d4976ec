package config

import "net/netip"

// RedisFile is the section "redis".
type RedisFile struct {
	Address *string `opt:"address"`
}

// Redis is where the Redis protocol is spoken; not valid means nowhere.
type Redis struct {
	Address netip.AddrPort `opt:"redis.address"`
}

func defaultRedis() *RedisFile { return &RedisFile{Address: ptr("")} }

func (f *RedisFile) runtime(c *checker, client netip.Addr) Redis {
	c.absent("redis.address", *f.Address, "the Redis protocol")
	return Redis{Address: c.listener("redis.address", *f.Address, client)}
}
