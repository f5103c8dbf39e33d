package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names resolves hosts as a test says, one answer after another; the last
// stays.
type names struct {
	answers map[string][]string
	asked   atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	answers, ok := n.answers[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var found []netip.Addr
	for a := range strings.SplitSeq(answers[min(int(n.asked.Add(1))-1, len(answers)-1)], " ") {
		found = append(found, netip.MustParseAddr(a))
	}
	return found, nil
}

// server is a real one on loopback; the port is where.
func server(t *testing.T, answer http.HandlerFunc) (port string) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// here makes good.test:port the one private place that may be reached.
func here(c web.Config, port string) web.Config {
	c.Private = append(c.Private, "good.test:"+port)
	if c.Resolver == nil {
		c.Resolver = &names{answers: map[string][]string{"good.test": {"127.0.0.1"}, "internal.test": {"127.0.0.1"}}}
	}
	return c
}

func call(ctx context.Context, t *testing.T, c web.Config, name string, in map[string]any) (tool.Result, error) {
	t.Helper()
	tools, err := web.Tools(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	used, _ := set.Get(name)
	return used.Call(ctx, tool.Call{Arguments: raw})
}

func get(t *testing.T, c web.Config, url string) (tool.Result, error) {
	t.Helper()
	return call(t.Context(), t, c, "http_get", map[string]any{"url": url})
}

// untouched is a server that nobody may reach.
func untouched(t *testing.T) (port string) {
	t.Helper()
	return server(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was asked for", r.Method, r.URL) })
}

func TestGuard_privatePlacesAreRefused(t *testing.T) {
	t.Parallel()
	port := untouched(t)
	c := here(web.Config{Resolver: &names{answers: map[string][]string{
		"internal.test": {"127.0.0.1"}, "mapped.test": {"::ffff:127.0.0.1"}, "mixed.test": {"8.8.8.8 127.0.0.1"}, "good.test": {"127.0.0.1"},
	}}}, "1")
	for _, host := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0", "internal.test", "INTERNAL.test.", "mapped.test", "mixed.test",
		"good.test", // allowed, but not at this port
	} {
		if got, err := get(t, c, "http://"+host+":"+port+"/"); !errors.Is(err, web.ErrRefused) && !isUnknown(err) {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	for _, bad := range []string{"ftp://good.test", "file:///etc/passwd", "gopher://good.test", "//good.test", "http://", "http://user:word@good.test:1/", "http://gооd.test/"} {
		if got, err := get(t, c, bad); !errors.Is(err, web.ErrRefused) || strings.Contains(err.Error(), "word") {
			t.Errorf("%s: %+v, %v", bad, got, err)
		}
	}
	if _, err := get(t, c, "http://%zz"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("no URL: %v", err)
	}
}

// isUnknown reports that a name was not found: some spellings of a host are
// looked up as they are.
func isUnknown(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

func TestGuard_redirectsAreChecked(t *testing.T) {
	t.Parallel()
	secret := untouched(t)
	for _, to := range []string{
		"http://internal.test:" + secret + "/", "http://127.0.0.1:" + secret, "http://[::1]:" + secret, "//internal.test:" + secret + "/",
		"http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "http://user:word@good.test/",
	} {
		for _, name := range []string{"http_get", "http_request"} {
			port := server(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
			})
			got, err := call(t.Context(), t, here(web.Config{}, port), name, map[string]any{"url": "http://good.test:" + port})
			if !errors.Is(err, web.ErrRefused) {
				t.Errorf("%s to %s: %+v, %v", name, to, got, err)
			}
		}
	}
}

func TestGuard_aNameIsResolvedOnceForAConnection(t *testing.T) {
	t.Parallel()
	port := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	// Whoever looks a second time is sent to where nobody listens.
	resolver := &names{answers: map[string][]string{"good.test": {"127.0.0.1", "127.0.0.2"}}}
	got, err := get(t, here(web.Config{Resolver: resolver}, port), "http://good.test:"+port)
	if err != nil || !strings.Contains(got.Content, "hello") || resolver.asked.Load() != 1 {
		t.Errorf("got %+v, %v after %d lookups", got, err, resolver.asked.Load())
	}
	// A name that turns to a private address is refused at the next request.
	secret := untouched(t)
	turning := &names{answers: map[string][]string{"good.test": {"127.0.0.1"}, "turning.test": {"10.0.0.1", "127.0.0.1"}}}
	for range 2 {
		if _, err := get(t, here(web.Config{Resolver: turning}, port), "http://turning.test:"+secret); !errors.Is(err, web.ErrRefused) {
			t.Errorf("got %v", err)
		}
	}
}

func TestGuard_listsOfHosts(t *testing.T) {
	t.Parallel()
	port := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	at := "http://good.test:" + port
	for name, c := range map[string]struct {
		config web.Config
		reach  bool
	}{
		"nothing said":     {web.Config{}, true},
		"allowed":          {web.Config{Allow: []string{"Good.Test"}}, true},
		"allowed below":    {web.Config{Allow: []string{"*.test"}}, true},
		"another allowed":  {web.Config{Allow: []string{"example.com"}}, false},
		"below it only":    {web.Config{Allow: []string{"*.good.test"}}, false},
		"ends like it":     {web.Config{Allow: []string{"od.test"}}, false},
		"denied":           {web.Config{Deny: []string{"good.test"}}, false},
		"denied wins":      {web.Config{Allow: []string{"good.test"}, Deny: []string{"*.test"}}, false},
		"another denied":   {web.Config{Deny: []string{"example.com"}}, true},
		"check says no":    {web.Config{Check: func(*url.URL) error { return errors.New("not on a Sunday") }}, false},
		"check sees a URL": {web.Config{Check: func(u *url.URL) error { return map[bool]error{false: errors.New("no")}[u.Path == ""] }}, true},
	} {
		got, err := get(t, here(c.config, port), at)
		if reached := err == nil && strings.Contains(got.Content, "hello"); reached != c.reach || (!reached && !errors.Is(err, web.ErrRefused)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []web.Config{{Allow: []string{"a*"}}, {Deny: []string{""}}, {Allow: []string{"*."}}, {Deny: []string{"http://x"}}, {Private: []string{"x"}}} {
		if _, err := web.Tools(bad); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestCall_cancelEndsARequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	port := server(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	c := here(web.Config{Timeout: time.Minute}, port)
	if _, err := call(ctx, t, c, "http_get", map[string]any{"url": "http://good.test:" + port}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRedirect_toAnotherHostNeedsThePermitOfTheCall(t *testing.T) {
	t.Parallel()
	var port string
	reached := atomic.Int64{}
	port = server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://other.test:"+port+"/there", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/hello", http.StatusFound)
		case "/there":
			reached.Add(1)
			fmt.Fprint(w, "hello")
		default:
			fmt.Fprint(w, "hello")
		}
	})
	c := here(web.Config{Resolver: &names{answers: map[string][]string{"good.test": {"127.0.0.1"}, "other.test": {"127.0.0.1"}}}}, port)
	c.Private = append(c.Private, "other.test:"+port)
	denied := func(host string) error { return fmt.Errorf("%s is denied", host) }
	for name, tt := range map[string]struct {
		path   string
		permit *tool.Permit
		reach  bool
	}{
		"no permissions":         {"/away", nil, true},
		"no other host":          {"/away", &tool.Permit{}, false},
		"a host that is denied":  {"/away", &tool.Permit{Host: denied}, false},
		"a host that is allowed": {"/away", &tool.Permit{Host: func(string) error { return nil }}, true},
		"the same host":          {"/round", &tool.Permit{Host: denied}, true},
	} {
		ctx := t.Context()
		if tt.permit != nil {
			ctx = tool.WithPermit(ctx, *tt.permit)
		}
		before := reached.Load()
		got, err := call(ctx, t, c, "http_get", map[string]any{"url": "http://good.test:" + port + tt.path})
		if tt.reach {
			if err != nil || !strings.Contains(got.Content, "hello") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if !errors.Is(err, web.ErrRefused) || !strings.Contains(err.Error(), "redirected to http://other.test:"+port+"/there") || reached.Load() != before {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
