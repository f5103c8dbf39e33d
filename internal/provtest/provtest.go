// Package provtest has test servers with the protocols of model providers. They
// refuse what real servers refuse, answer from a script, fail as real servers
// fail, and record every request. They listen on a local port, so a test may
// give their address to another process, kill it, and count its answers.
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

// Config is the script of a server. After the last reply it repeats; without
// replies the answer is "ok".
type Config struct {
	Replies []Reply
	// Choose returns the reply to a request, instead of Replies. Several
	// goroutines may call it.
	Choose func(Request) Reply
	Key    string   // the one that is good; empty: any, or none
	Models []string // those it lists; empty: it has no such list
	Lax    bool     // takes any request, also one the real server would refuse
}

// Request is a request that a server received.
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

// Calls counts what a server did. Another process gets it as JSON with GET
// /provtest/calls.
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

// protocol is the part in which servers differ.
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

// refusal is an error response.
type refusal struct {
	status            int
	kind, code, param string
	message           string
}

// OpenAI starts a server with the Chat Completions protocol.
func OpenAI(c Config) *Server { return start(c, chat{}, "/v1") }

// Anthropic starts a server with the Messages protocol.
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

// Close ends the server and all its open answers.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.closing) })
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns the requests for an answer, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Calls returns the counts so far.
func (s *Server) Calls() Calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Connections returns how many connections clients have opened.
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

// list answers with the list of models.
func (s *Server) list(w http.ResponseWriter, r Request) {
	if no := s.checkKey(r.Header); no != nil {
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

// answer records the request and sends its reply.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	request := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	no := s.checkKey(r.Header)
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

// last sends the last bytes of an answer. It counts the answer before, so that a
// client with the whole answer finds it counted, and takes it back on failure.
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

// record stores a request and finds its reply.
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

// checkKey refuses a client without the right key.
func (s *Server) checkKey(h http.Header) *refusal {
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
	// Real servers repeat the key that they refuse; adapters must mask it.
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

// encode encodes values that always encode.
func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
