package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// Host is what configuration depends on of the machine.
type Host struct {
	Name      string
	Addresses []HostAddress
}

// HostAddress is one address of one interface that is up.
type HostAddress struct {
	Interface string
	Addr      netip.Addr
}

// ThisHost asks the operating system.
func ThisHost() (Host, error) {
	name, err := os.Hostname()
	if err != nil {
		return Host{}, fmt.Errorf("read the host name: %w", err)
	}
	h := Host{Name: name}
	interfaces, err := net.Interfaces()
	if err != nil {
		return Host{}, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return Host{}, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if ipnet, ok := a.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(ipnet.IP); ok {
					h.Addresses = append(h.Addresses, HostAddress{Interface: i.Name, Addr: addr.Unmap()})
				}
			}
		}
	}
	return h, nil
}

// The ways in which no address can be chosen.
var (
	ErrAmbiguousAddress = errors.New("this machine has several addresses")
	ErrNoAddress        = errors.New("this machine has no address that others can reach")
)

// ChooseAddress returns the address to tell others when the operator named
// none: the single private one, else the single global one. Loopback and
// link-local addresses are never chosen. With several candidates the error
// lists them.
func ChooseAddress(addresses []HostAddress) (netip.Addr, error) {
	var private, global []HostAddress
	for _, a := range addresses {
		switch {
		case !a.Addr.IsGlobalUnicast():
		case a.Addr.IsPrivate():
			private = append(private, a)
		default:
			global = append(global, a)
		}
	}
	candidates := private
	if len(private) == 0 {
		candidates = global
	}
	switch len(candidates) {
	case 0:
		return netip.Addr{}, ErrNoAddress
	case 1:
		return candidates[0].Addr, nil
	}
	return netip.Addr{}, fmt.Errorf("%w: %s", ErrAmbiguousAddress, listAddresses(candidates))
}

func listAddresses(addresses []HostAddress) string {
	var parts []string
	for _, a := range addresses {
		parts = append(parts, fmt.Sprintf("%s (%s)", a.Addr, a.Interface))
	}
	return strings.Join(parts, ", ")
}

// parseAddress reads an IP address, in brackets or not, or the name of an
// interface that has exactly one usable address.
func (h Host) parseAddress(text string) (addr netip.Addr, rule string) {
	bare := text
	if inner, ok := strings.CutPrefix(text, "["); ok {
		bare, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return addr, "must be an IP address without a port"
		}
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		if addr.Zone() != "" {
			return netip.Addr{}, "must not be a link-local address with a scope: it means nothing to other machines"
		}
		return addr.Unmap(), ""
	}
	var found []HostAddress
	for _, a := range h.Addresses {
		if a.Interface == text && !a.Addr.IsLinkLocalUnicast() {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return netip.Addr{}, "must be an IP address without a port, or the name of an interface of this machine"
	case 1:
		return found[0].Addr, ""
	}
	return netip.Addr{}, "names an interface with several addresses, take one of them: " + listAddresses(found)
}

func (h Host) has(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	for _, a := range h.Addresses {
		if a.Addr.WithZone("") == addr {
			return true
		}
	}
	return false
}
