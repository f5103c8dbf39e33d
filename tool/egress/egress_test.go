package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/egress"
)

func TestGuard_addresses(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.1", "168.63.129.16", "169.254.169.254", "172.16.0.1",
		"172.31.255.255", "192.0.0.192", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0",
		"fec0::1", "ff02::1", "5f00::1",
	} {
		if egress.Forbidden(netip.MustParseAddr(a)) == "" {
			t.Errorf("%s may be reached", a)
		}
	}
	for _, a := range []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.1.0.1", "223.255.255.255",
		"2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808", "::ffff:8.8.8.8",
	} {
		if why := egress.Forbidden(netip.MustParseAddr(a)); why != "" {
			t.Errorf("%s may not be reached: %s", a, why)
		}
	}
	if egress.Forbidden(netip.Addr{}) == "" {
		t.Error("no address may be reached")
	}
}

func TestText_byTypeOrByLooks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body, want string
		html, binary     bool
	}{
		"text":            {kind: "text/plain", body: "a", want: "a"},
		"html":            {kind: "text/html; charset=utf-8", body: "<p>é", want: "<p>é", html: true},
		"old letters":     {kind: "text/plain; charset=iso-8859-1", body: "caf\xe9", want: "café"},
		"no type":         {body: "just words", want: "just words"},
		"nothing":         {kind: "image/png"},
		"a picture":       {kind: "image/png", body: "\x89PNG", binary: true},
		"called a text":   {kind: "text/plain", body: "a\x00b", binary: true},
		"untyped picture": {body: "\x89PNG\r\n\x1a\n", binary: true},
	} {
		text, html, err := egress.Text(c.kind, []byte(c.body))
		if text != c.want || html != c.html || errors.Is(err, egress.ErrBinary) != c.binary {
			t.Errorf("%s: %q, %v, %v", name, text, html, err)
		}
	}
}

func TestDo_answersTellWhereTheyCameFrom(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusSeeOther)
			return
		}
		fmt.Fprint(w, r.Method, r.URL.Path)
	}))
	defer server.Close()
	at, err := url.Parse(server.URL + "/old")
	if err != nil {
		t.Fatal(err)
	}
	open, err := egress.New(egress.Config{Private: []string{at.Host}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := open.Do(t.Context(), egress.Request{Method: http.MethodPost, URL: at, Body: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "GET/new" || resp.Request.URL.Path != "/new" {
		t.Errorf("%s from %s, %v", body, resp.Request.URL, err)
	}
	closed, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := closed.Do(t.Context(), egress.Request{Method: http.MethodGet, URL: at}); !errors.Is(err, egress.ErrRefused) {
		_ = resp.Body.Close()
		t.Errorf("loopback: %v", err)
	}
}
