package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
)

// pipes is a listener without ports or file descriptors, so that a test can
// open as many connections as it likes.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(t testing.TB) net.Conn {
	t.Helper()
	mine, theirs := net.Pipe()
	select {
	case p.accepted <- theirs:
	case <-time.After(time.Minute):
		t.Fatal("nobody accepts connections")
	}
	return mine
}

// raw sends bytes as they are and returns the status and the body of the
// response.
func (p *pipes) raw(t *testing.T, text string) (int, string) {
	t.Helper()
	c := p.dial(t)
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, text) }() // the server may answer before it has read all
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no response to %.80q: %v", text, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// backTo waits until no more goroutines run than before.
func backTo(t *testing.T, before int) {
	t.Helper()
	for over := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, before there were %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// hostileNode is a node on pipes that waits so long for headers and bodies.
func hostileNode(t testing.TB, streams int, headers, body time.Duration) (*node, *pipes) {
	t.Helper()
	n := newNode(t, func(_ *holdfast.Config, c *server.Config) {
		c.BodyWait, c.MaxBody, c.MaxStreams, c.Rate = body, 64<<10, streams, 1e6
	})
	p := newPipes()
	web := &http.Server{Handler: n.server, ReadHeaderTimeout: headers, MaxHeaderBytes: 16 << 10}
	served := make(chan struct{})
	go func() { defer close(served); _ = web.Serve(p) }()
	t.Cleanup(func() { _ = web.Close(); <-served })
	return n, p
}

// Whatever a client sends gets a clear refusal, and leaves sessions as they
// were and nothing running.
func TestHostile_clientsAreRefused(t *testing.T) { //nolint:paralleltest // it counts goroutines
	n, p := hostileNode(t, 10, time.Minute, time.Minute)
	made := n.create(request{})
	at := "/v1/sessions/" + made.ID
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := runtime.NumGoroutine()
	key := "Host: localhost\r\nAuthorization: Bearer " + n.admin + "\r\nConnection: close\r\n"
	asJSON := key + "Content-Type: application/json\r\n"
	post := func(headers, path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
	}
	get := func(headers, path string) string { return "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n" }
	for _, tt := range []struct {
		name, text string
		status     int
		says       string
	}{
		{"huge headers", get(key+"X-Big: "+strings.Repeat("x", 64<<10)+"\r\n", at), 431, "431"},
		{"a huge body", post(asJSON, at+"/messages", `{"text":"`+strings.Repeat("x", 100<<10)+`"}`), 413, "too_large"},
		{"a huge body in pieces", fmt.Sprintf("POST %s/messages HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", at, asJSON, 100<<10, strings.Repeat(" ", 100<<10)), 413, "too_large"},
		{"bad JSON", post(asJSON, at+"/messages", `{"text":`), 400, "unexpected end of JSON"},
		{"deep JSON", post(asJSON, "/v1/sessions", strings.Repeat("[", 30000)+strings.Repeat("]", 30000)), 400, "bad_request"},
		{"deep JSON as a value", strings.Replace(post(asJSON, at+"/memory/session/k", strings.Repeat(`[`, 20000)+strings.Repeat("]", 20000)), "POST", "PUT", 1), 422, "invalid"},
		{"a form", post(key+"Content-Type: application/x-www-form-urlencoded\r\n", at+"/messages", "text=hello"), 415, "Content-Type: application/json"},
		{"a media type that is none", post(key+"Content-Type: ;;;\r\n", at+"/messages", `{"text":"x"}`), 415, "unsupported_media_type"},
		{"a forged cookie", get("Host: localhost\r\nCookie: hf=hf_abc_def\r\nConnection: close\r\n", at), 401, "unauthenticated"},
		{"two keys", get("Host: localhost\r\nAuthorization: Bearer x\r\nAuthorization: Bearer "+n.admin+"\r\nConnection: close\r\n", at), 401, "unauthenticated"},
		{"the name of another host", get(strings.Replace(key, "localhost", "evil.example", 1), at), 421, "wrong_host"},
		{"no host", get(strings.Replace(key, "Host: localhost", "Host: ", 1), at), 421, "wrong_host"},
		{"dots in a path", get(key, "/v1/sessions/../keys"), 307, "/v1/keys"},
		{"escaped slashes", get(key, "/v1/sessions/..%2f..%2fkeys"), 404, "not_found"},
		{"escaped dots", get(key, "/v1/sessions/%2e%2e/keys"), 404, "no_route"},
		{"a zero byte", get(key, at+"%00"), 404, "not_found"},
		{"a zero byte in a memory", get(key, at+"/memory/session/%00"), 422, "invalid"},
		{"a very long id", get(key, "/v1/sessions/"+strings.Repeat("a", 8<<10)), 404, "not_found"},
		{"bytes that are no text", get(key, "/v1/sessions/%ff%fe"), 404, "not_found"},
		{"a method that is none", "BREW " + at + " HTTP/1.1\r\n" + key + "\r\n", 404, "no_route"},
		{"a number that is too large", get(key, at+"?version=99999999999999999999"), 422, "invalid"},
		{"an unknown parameter", get(key, at+"?colour=1"), 422, "invalid"},
	} {
		status, body := p.raw(t, tt.text)
		if status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %.300s, want %d with %q", tt.name, status, body, tt.status, tt.says)
		}
	}
	now := want[session.Info](t, n.do("GET", at+"?view=info", request{}), 200)
	if now.Version != made.Version || now.Seq != made.Seq {
		t.Errorf("the session is %+v, was %+v", now, made)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	backTo(t, before)
}

// A client that sends too slowly is given up.
func TestHostile_slowClientsAreGivenUp(t *testing.T) {
	t.Parallel()
	n, p := hostileNode(t, 10, time.Minute, 50*time.Millisecond)
	for _, path := range []string{"/v1/sessions", "/openai/v1/responses", "/aisdk/echo", "/agui/echo", "/mcp"} {
		status, body := p.raw(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+n.admin+"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		if status != 408 || !strings.Contains(body, "timeout") {
			t.Errorf("%s: a body that does not come: %d %s", path, status, body)
		}
	}
	_, p = hostileNode(t, 10, 50*time.Millisecond, time.Minute)
	slow := p.dial(t)
	defer func() { _ = slow.Close() }()
	_, _ = io.WriteString(slow, "GET / HTTP/1.1\r\nX: ") // the server may have given up already
	if _, err := io.ReadAll(slow); err != nil {          // it ends when the server has closed the connection
		t.Errorf("headers that do not end: %v", err)
	}
}

// Streams are counted, every one gets what happens, and nothing of them stays.
// HOLDFAST_STREAMS opens more of them.
func TestHostile_manyStreams(t *testing.T) { //nolint:paralleltest // it counts goroutines
	count := 300
	if text := os.Getenv("HOLDFAST_STREAMS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	n, p := hostileNode(t, count, time.Minute, time.Minute)
	made := n.create(request{})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := runtime.NumGoroutine()
	ask := "GET /v1/sessions/" + made.ID + "/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + n.admin + "\r\n\r\n"
	var (
		caught, heard, readers sync.WaitGroup
		all                    []net.Conn
	)
	for range count {
		c := p.dial(t)
		all = append(all, c)
		caught.Add(1)
		heard.Add(1)
		readers.Go(func() {
			first := sync.OnceFunc(heard.Done)
			defer first()
			readStream(c, ask, caught.Done, first)
		})
	}
	caught.Wait()
	if status, body := p.raw(t, ask); status != 429 || !strings.Contains(body, "rate_limited") {
		t.Errorf("one stream more: %d %s", status, body)
	}
	if _, err := n.rt.Execute(context.Background(), made.ID, holdfast.RenameSession{To: "heard"}); err != nil {
		t.Fatal(err)
	}
	heard.Wait()
	for _, c := range all {
		_ = c.Close()
	}
	readers.Wait()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	backTo(t, before)
}

// readStream follows a session and tells when it has caught up, and of each
// change after that.
func readStream(c net.Conn, ask string, caughtUp, changed func()) {
	caughtUp = sync.OnceFunc(caughtUp)
	defer caughtUp()
	if _, err := io.WriteString(c, ask); err != nil {
		return
	}
	caught := false
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch {
		case lines.Text() == "event: caught-up":
			caught = true
			caughtUp()
		case caught && lines.Text() == "event: record":
			changed()
		}
	}
}
