// Package server offers sessions over HTTP.
//
// One rule decides about status codes: a response is 2xx if and only if
// something was saved, or the request only read. Everything else is an RFC 9457
// problem with a stable code.
package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/worker"
)

// Config says what a server offers. Runtime and Keys are required.
type Config struct {
	Runtime *holdfast.Runtime
	Keys    *apikey.Keys

	Agents Agents          // what sessions can be created of by name; nil: only whole definitions
	Models func() []string // the names of the models that can be used; nil: none are listed
	Tools  func() []Tool   // the tools that agents may use; nil: none are listed
	Tasks  *Tasks          // nil: no tasks are worked on here
	Runs   *Runs           // nil: no workflow specs are run here
	// Missing says what an agent lacks that this machine could be given, such as
	// the key of its model (the definition's where model is empty) or a tool that is
	// not offered. It is asked where the runtime refuses a definition. Nil: the
	// runtime's error says it.
	Missing func(def session.Definition, model string) error
	// MaxWork is how many tasks, runs and turns that nobody waits for are worked
	// on at a time; 0: 32. More of them wait.
	MaxWork int

	// Address is the Address of the runtime. With it, followers of a session that
	// another node works on get the pieces of its answers from that node.
	Address string

	Schedules *schedule.Schedules  // nil: none are offered
	Work      store.Work           // what waits in the store; nil: it is not shown
	Loads     func() []worker.Load // how busy the worker of this process is; nil: there is none

	Nodes *node.Nodes // the processes that share the store; nil: they are not shown
	Node  *node.Self  // this one; nil: it is not a node

	// OIDC accepts tokens of an OpenID Connect issuer beside keys. Nil: none.
	OIDC *OIDC

	// Page serves browsers that are logged in: every path that is no route of the
	// API. Nil: there is no page.
	Page http.Handler
	// Prefix is the path below which everything is served, such as /holdfast behind
	// a proxy that serves other things too. Empty: the whole host.
	Prefix string

	// Hosts are names that requests may be addressed to besides localhost and
	// IP addresses. It protects a server on loopback from pages that point a name
	// of their own at it.
	Hosts []string
	// Origins may read responses from a browser. They authenticate with a key,
	// never with the cookie. Empty: none.
	Origins []string

	MaxBody    int64         // bytes of a request; 0: 8 MiB
	BodyWait   time.Duration // how long the body of a request may take to arrive; 0: 30 s
	MaxStreams int           // open event streams per key; 0: 100
	Rate       float64       // requests per second and key; 0: 200
	Heartbeat  time.Duration // of a silent event stream; 0: 15 s
	WriteWait  time.Duration // how long a reader may take for one event; 0: 30 s
	JoinWait   time.Duration // how long a turn goes on whose connection broke, for a repetition to join it; 0: 5 s

	Version string       // of the program, for /v1/system/info
	Logger  *slog.Logger // nil: silent
	Now     func() time.Time
}

// Agents are the definitions that sessions can be created of.
type Agents interface {
	Get(name string) (session.Definition, error)
	Names() []string
}

// Tool describes a tool that agents may use.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Server serves the API. It is an http.Handler; who listens, and with which
// limits for connections, is the caller's choice.
type Server struct {
	config      Config
	rt          *holdfast.Runtime
	api         huma.API
	handler     http.Handler
	limits      *limits
	codes       *codes
	metrics     *metrics
	feeds       *feeds
	work        *work
	requests    requests
	log         *slog.Logger
	draining    atomic.Bool
	issuer      *issuer // nil: only keys are accepted
	crossOrigin *http.CrossOriginProtection
	peers       *http.Transport // to other nodes
	protocols   []protocol.Protocol

	stopListening func()        // ends listening
	drain         chan struct{} // closed by Drain
	drainOnce     sync.Once
}

// New checks the configuration and builds the routes.
func New(c Config) (*Server, error) {
	switch {
	case c.Runtime == nil:
		return nil, &session.InvalidError{Field: "Runtime", Reason: "is missing"}
	case c.Keys == nil:
		return nil, &session.InvalidError{Field: "Keys", Reason: "is missing"}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Address != "" {
		own, err := url.Parse(c.Address)
		if err != nil {
			return nil, &session.InvalidError{Field: "Address", Reason: err.Error()}
		}
		c.Hosts = append(slices.Clone(c.Hosts), own.Hostname())
	}
	if c.Prefix != "" && (!strings.HasPrefix(c.Prefix, "/") || path.Clean(c.Prefix) != c.Prefix || c.Prefix == "/" || strings.ContainsAny(c.Prefix, "?#;%\"\\ ")) {
		return nil, &session.InvalidError{Field: "Prefix", Reason: fmt.Sprintf("%q is not a path such as /holdfast", c.Prefix)}
	}
	c.MaxBody = cmp.Or(c.MaxBody, 8<<20)
	c.BodyWait = cmp.Or(c.BodyWait, 30*time.Second)
	c.MaxStreams = cmp.Or(c.MaxStreams, 100)
	c.Rate = cmp.Or(c.Rate, 200)
	c.Heartbeat = cmp.Or(c.Heartbeat, 15*time.Second)
	c.WriteWait = cmp.Or(c.WriteWait, 30*time.Second)
	c.MaxWork = cmp.Or(c.MaxWork, 32)
	c.JoinWait = cmp.Or(c.JoinWait, 5*time.Second)
	s := &Server{config: c, rt: c.Runtime, log: cmp.Or(c.Logger, slog.New(slog.DiscardHandler)), drain: make(chan struct{})}
	s.peers = &http.Transport{DialContext: (&net.Dialer{Timeout: peerDial}).DialContext, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}
	var err error
	if s.issuer, err = newIssuer(c.OIDC, c.Now); err != nil {
		return nil, err
	}
	s.crossOrigin = http.NewCrossOriginProtection()
	s.limits = newLimits(c)
	s.codes = newCodes(c.Now)
	s.metrics = newMetrics()
	s.feeds = newFeeds(c.Runtime, s.drain)
	s.work = newWork(c.MaxWork, s.log)
	mux := http.NewServeMux()
	s.api = newAPI(mux, c)
	s.addSessions()
	s.addKeeping()
	s.addMessages()
	s.addItems()
	s.addActions()
	s.addRequests()
	s.addHistory()
	s.addMemory()
	s.addBlocks()
	s.addPending()
	s.addTasks()
	s.addRuns()
	s.addStats()
	s.addFound()
	s.addCatalogue()
	s.addKeys()
	s.addCodes()
	s.addSchedules()
	s.addWaiting()
	s.addNodes()
	s.addSystem(mux)
	mux.HandleFunc("GET /metrics", s.writeMetrics)
	s.addEvents(mux)
	s.addTopics(mux)
	s.addLogin(mux)
	s.addOIDCLogin(mux)
	s.addProtocols(mux)
	s.addMCP(mux)
	s.stopListening = c.Runtime.WiretapAll(s.listen)
	s.handler = s.logged(s.below(s.guard(recordRoute(mux))))
	return s, nil
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain begins the end: /readyz fails, event streams are told to go elsewhere
// and end, and background work is interrupted, which other processes continue.
// Requests at work go on. It may be called twice.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.drainOnce.Do(func() { close(s.drain) })
	s.work.close()
}

// Close drains the server, interrupts the turns that requests wait for, and
// waits for all work to end. Call it
// before the runtime is closed.
func (s *Server) Close() {
	s.Drain()
	s.requests.close()
	s.work.all.Wait()
	s.stopListening()
	s.peers.CloseIdleConnections()
}

// newAPI makes the API without routes.
func newAPI(mux *http.ServeMux, c Config) huma.API {
	config := huma.DefaultConfig("Holdfast", cmp.Or(c.Version, "dev"))
	config.Info.Description = "Durable agent sessions. A response is 2xx if and only if something was saved, or the request only read; every other response is a problem (RFC 9457) with a stable code."
	config.CreateHooks = nil // bodies get no $schema
	config.OpenAPIPath = ""  // served by ourselves, so that it needs no key
	config.DocsPath, config.SchemasPath = "", ""
	config.RejectUnknownQueryParameters = true
	config.Transformers = []huma.Transformer{asProblem}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "An API key, made with: holdfast keys create"},
	}
	config.Components.Schemas = newSchemas()
	if c.Prefix != "" {
		config.Servers = []*huma.Server{{URL: c.Prefix}}
	}
	return humago.New(mux, config)
}

// listen counts what happens in this process, and wakes the readers of a tenant
// when one of its sessions is saved.
func (s *Server) listen(e holdfast.Event) {
	s.metrics.event(e)
	if _, saved := e.(holdfast.SessionSaved); saved {
		s.feeds.wake(e.Subject().Tenant)
	}
}

// Document returns the OpenAPI document of the API.
func (s *Server) Document() *huma.OpenAPI { return s.api.OpenAPI() }

// caller is who makes a request: a key, and the runtime as that key sees it.
type caller struct {
	apikey.Key
	rt        *holdfast.Runtime
	operation string // that is asked for
	missing   func(session.Definition, string) error
}

// callerKey is where the context of a request holds its caller.
type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// register adds an operation that needs a scope. Its errors become problems.
func register[I, O any](s *Server, scope apikey.Scope, op huma.Operation, handle func(ctx context.Context, c caller, in *I) (*O, error)) {
	op.Security = []map[string][]string{{"key": {}}}
	op.Description = describeScope(op.Description, scope)
	op.MaxBodyBytes, op.BodyReadTimeout = s.config.MaxBody, s.config.BodyWait
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		c := callerOf(ctx)
		c.operation, c.missing = op.OperationID, s.config.Missing
		if err := c.Permit(scope); err != nil {
			return nil, err
		}
		out, err := handle(ctx, c, in)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		return out, nil
	})
}

func describeScope(text string, scope apikey.Scope) string {
	if text != "" {
		text += " "
	}
	return text + "Needs the scope " + string(scope) + "."
}
