package egress

import "net/netip"

// reserved are the addresses no public host has, and what they are. The
// registries of special-purpose addresses list them; the metadata service of
// Azure stands among public ones and is added.
var reserved = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address shared by a carrier"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},

	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"}, // Teredo, which carries an IPv4 address, is inside
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
}

// Of IPv6 only these are public; the rest is reserved or not given out.
var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // the last four bytes are an IPv4 address
	sixTo4 = netip.MustParsePrefix("2002::/16")    // bytes 2 to 5 are
)

// whyForbidden says what is wrong with an address, "" for a public one. An IPv4
// address inside an IPv6 one counts as the IPv4 address.
func whyForbidden(a netip.Addr) string {
	if a.Zone() != "" {
		return "a link-local address"
	}
	a = a.Unmap()
	bytes := a.As16()
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return "no address"
	case nat64.Contains(a):
		return whyForbidden(netip.AddrFrom4([4]byte(bytes[12:16])))
	case sixTo4.Contains(a):
		return whyForbidden(netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	for _, r := range reserved {
		if r.prefix.Contains(a) {
			return r.what
		}
	}
	if a.Is6() && !global.Contains(a) {
		return "a reserved address"
	}
	return ""
}
