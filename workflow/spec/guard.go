package spec

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// shared are the addresses of a carrier's own network.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// guard refuses the base URL of an HTTP executor that can be seen to lead to
// a place it must not reach. What a name resolves to is seen only when a
// request is made, and is guarded again there.
func (l Loader) guard(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("is not an http or https URL")
	case u.User != nil:
		return errors.New("holds credentials; put them in a header as ${NAME}")
	case slices.Contains(l.AllowPrivate, hostPort(u)):
		return nil
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return fmt.Errorf("leads to this machine (%s)", host)
	}
	if address, err := netip.ParseAddr(host); err == nil && !public(address) {
		return fmt.Errorf("leads to an address that is not public (%s)", host)
	}
	return nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

func public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a) && a.Zone() == ""
}
