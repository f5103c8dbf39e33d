package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// ErrRefused is matched by the errors of requests that may not be made.
var ErrRefused = errors.New("refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// guard decides where requests may go.
type guard struct {
	allow, deny []string // hosts, lower case
	private     []string // host:port that may be anywhere
	check       func(*url.URL) error
	resolver    Resolver
	dialer      net.Dialer
}

// address refuses a URL by what it says, before anything is resolved.
func (g *guard) address(u *url.URL) error {
	host := hostOf(u)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return refused("%q is not http or https", u.Scheme)
	case host == "":
		return refused("there is no host in the URL")
	case u.User != nil:
		return refused("there are credentials in the URL")
	case strings.ContainsFunc(host, func(r rune) bool { return r > '~' || r <= ' ' }):
		return refused("the host is not in ASCII letters; write it in its xn-- form")
	case matchesAny(g.deny, host):
		return refused("the host %s is on the list of those denied", host)
	case len(g.allow) > 0 && !matchesAny(g.allow, host):
		return refused("the host %s is not on the list of those allowed", host)
	case g.check != nil:
		if err := g.check(u); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return nil
}

// hostOf returns a URL's host in the form used for comparing.
func hostOf(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

// matchesAny reports whether a host is on a list: by its name, or below a *.name.
func matchesAny(list []string, host string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		if below, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(host, below)
		}
		return host == pattern
	})
}

// dial resolves a host once and connects to an address that was checked. A
// host that has a forbidden address among others is refused: nobody means both.
func (g *guard) dial(ctx context.Context, network, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	addresses, err := g.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(g.private, net.JoinHostPort(strings.TrimSuffix(strings.ToLower(host), "."), port)) {
		for _, a := range addresses {
			if why := whyForbidden(a); why != "" {
				return nil, refused("%s is at %s, %s", host, a, why)
			}
		}
	}
	var failures []error
	for _, a := range addresses {
		conn, err := g.dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func (g *guard) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addresses, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addresses) == 0 {
		err = fmt.Errorf("look up %s: no address", host)
	}
	return addresses, err
}
