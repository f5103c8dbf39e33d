// Package provtest has servers that speak the protocols of model providers,
// for tests. They refuse what the real ones refuse, answer from a script, break
// in the ways real ones break, and remember every request. They listen on a
// port of this machine, so a test may hand their address to another process,
// kill that, and count what it had been answered.
package provtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Config is what a server says. Past the end of the replies the last one
// repeats; with none it says "ok".
type Config struct {
	Replies []Reply
	// Choose gives the reply to a request in place of Replies. It may be
	// called from several goroutines.
	Choose func(Request) Reply
	Key    string   // the one that is good; empty: any, or none
	Models []string // those it lists; empty: it has no such list
	Lax    bool     // takes any request, also one the real server would refuse
}

// Request is one that a server received.
type Request struct {
	N       int // how many came before it, refused ones included
	Turn    int // how many were taken before it
	Method  string
	Path    string
	Header  http.Header
	Body    []byte
	Refused string // why it was, if it was
}

// JSON decodes the body.
func (r Request) JSON() map[string]any {
	var body map[string]any
	if json.Unmarshal(r.Body, &body) != nil {
		return nil
	}
	return body
}

// Calls counts what a server did. GET /provtest/calls on its address tells
// another process the same as JSON.
type Calls struct {
	Received int `json:"received"` // requests for an answer
	Refused  int `json:"refused"`  // as the real server would have
	Answered int `json:"answered"` // answered whole, to the last byte
}

// Server is a server of one protocol.
type Server struct {
	URL string // with /v1 where clients of the protocol expect that

	config   Config
	protocol protocol
	http     *httptest.Server
	closing  chan struct{}
	closed   sync.Once

	connections atomic.Int64

	mu       sync.Mutex // guards the rest
	requests []Request
	taken    int
	calls    Calls
}

// protocol is what servers differ in.
type protocol interface {
	path() string                              // of the one thing clients ask
	check(r Request, key string) *refusal      // nil where the real server would answer
	errorBody(r refusal) string                // how it says no
	events(reply Reply, r Request) []string    // a streamed answer
	document(reply Reply, r Request) string    // the same in one piece
	streams(r Request) bool                    // whether the request wants a stream
	lastEvent() string                         // after the events, empty if nothing
	frame(event string, newline string) string // an event on the wire
}

// refusal is how a real server says no.
type refusal struct {
	status            int
	kind, code, param string
	message           string
}

// OpenAI is a server of the Chat Completions protocol.
func OpenAI(c Config) *Server { return start(c, chat{}, "/v1") }

// Anthropic is a server of the Messages protocol.
func Anthropic(c Config) *Server { return start(c, messages{}, "") }

func start(c Config, p protocol, suffix string) *Server {
	s := &Server{config: c, protocol: p, closing: make(chan struct{})}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.http.Start()
	s.URL = s.http.URL + suffix
	return s
}

// Close ends the server and every answer it is giving.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.closing) })
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests are those for an answer, in the order they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Calls counts so far.
func (s *Server) Calls() Calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Connections is how many the clients have opened.
func (s *Server) Connections() int { return int(s.connections.Load()) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	switch {
	case r.URL.Path == "/provtest/calls":
		writeJSON(w, s.Calls())
	case r.URL.Path == "/v1/models" && r.Method == http.MethodGet:
		s.list(w, Request{Header: r.Header})
	case r.URL.Path == s.protocol.path() && r.Method == http.MethodPost:
		s.answer(w, r, body)
	default:
		http.NotFound(w, r)
	}
}

// list tells which models there are.
func (s *Server) list(w http.ResponseWriter, r Request) {
	if no := s.unknown(r.Header); no != nil {
		s.refuse(w, *no)
		return
	}
	if len(s.config.Models) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var data []map[string]any
	for _, id := range s.config.Models {
		data = append(data, map[string]any{"id": id, "object": "model", "type": "model"})
	}
	writeJSON(w, map[string]any{"object": "list", "data": data})
}

// answer takes the request and gives the reply whose turn it is.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	request := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	no := s.unknown(r.Header)
	if no == nil && !s.config.Lax {
		no = s.protocol.check(request, s.config.Key)
	}
	request, reply := s.record(request, no)
	if no != nil {
		s.refuse(w, *no)
		return
	}
	if s.config.Choose != nil {
		reply = s.config.Choose(request)
	}
	s.send(w, r, request, reply)
}

// last sends the last bytes of an answer. They count before they go, so that a
// client that has them all finds them counted; if they did not go, they do not
// count.
func (s *Server) last(send func() bool) {
	sent := false
	s.count(1)
	defer func() {
		if !sent {
			s.count(-1)
		}
	}()
	sent = send()
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.Answered += n
}

// record remembers a request and finds its reply.
func (s *Server) record(r Request, no *refusal) (Request, Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.N, r.Turn = len(s.requests), s.taken
	s.calls.Received++
	if no != nil {
		r.Refused = no.message
		s.calls.Refused++
	} else {
		s.taken++
	}
	s.requests = append(s.requests, r)
	if len(s.config.Replies) == 0 {
		return r, Reply{Text: []string{"ok"}}
	}
	return r, s.config.Replies[min(r.Turn, len(s.config.Replies)-1)]
}

// unknown refuses a client without the right key.
func (s *Server) unknown(h http.Header) *refusal {
	if s.config.Key == "" {
		return nil
	}
	given := h.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok {
		given = bearer
	}
	if given == s.config.Key {
		return nil
	}
	// Real servers repeat the key they refuse. It must not come out at the other end.
	return &refusal{status: http.StatusUnauthorized, kind: "authentication_error", code: "invalid_api_key", message: fmt.Sprintf("Incorrect API key provided: %s.", given)}
}

func (s *Server) refuse(w http.ResponseWriter, no refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	_, _ = io.WriteString(w, s.protocol.errorBody(no)) // a client that left needs no answer
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, encode(v)) // a client that left needs no answer
}

// encode is JSON of values that always encode.
func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
