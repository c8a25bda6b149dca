package dashboard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// WithHosts names hosts that the page is served under, without ports: "debug.internal". Under an IP
// address and localhost it always works. Requests that change something, and those for live data,
// are refused under other names: the owner of a name can make it lead to this server from a browser
// that can reach it (DNS rebinding).
func WithHosts(names ...string) Option {
	return optionFunc(func(d *Dashboard) error {
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, ":/") {
				return errors.New("dashboard: WithHosts has " + fmt.Sprintf("%q", name) + ", want a name without a port")
			}
			d.hosts = append(d.hosts, strings.ToLower(name))
		}
		return nil
	})
}

// checkHost returns an error if the Host of a request may be a name of somebody else.
func (d *Dashboard) checkHost(r *http.Request) error {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || slices.Contains(d.hosts, name) {
		return nil
	}
	return fmt.Errorf("found the host %q, want an IP address, localhost or a name of dashboard.WithHosts", r.Host)
}
