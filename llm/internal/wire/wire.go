// Package wire sends requests to model servers over HTTP and reads their
// answers. It knows no protocol, only what all have in common: transient and
// final failures, interrupted streams, and secrets to mask.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Defaults of Config.
const (
	DefaultIdle     = 5 * time.Minute
	DefaultMaxBytes = 64 << 20
)

// Config describes a server. Provider, Model and URL are required.
type Config struct {
	Provider string        // in errors
	Model    string        // in errors
	URL      string        // paths are appended; a query stays
	Header   http.Header   // sent with every request; holds the key
	Client   *http.Client  // nil: http.DefaultTransport without a timeout
	Idle     time.Duration // the longest pause in an answer; 0: DefaultIdle
	MaxBytes int64         // of one answer; 0: DefaultMaxBytes
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	config  Config
	base    *url.URL
	http    *http.Client
	secrets []string
}

// New checks the configuration. Errors name the field and contain no secret.
func New(c Config) (*Client, error) {
	if c.Model == "" {
		return nil, &session.InvalidError{Field: "Config.Model", Reason: "is required"}
	}
	base, err := url.Parse(c.URL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, &session.InvalidError{Field: "Config.URL", Reason: "is not an http or https address"}
	}
	for name, values := range c.Header {
		if strings.ContainsFunc(strings.Join(values, ""), func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }) {
			return nil, &session.InvalidError{Field: "Config", Reason: "the value for the header " + name + " has characters that are not allowed in a header"}
		}
	}
	if c.Idle < 0 || c.MaxBytes < 0 {
		return nil, &session.InvalidError{Field: "Config.Idle", Reason: "Idle and MaxBytes must not be negative"}
	}
	c.Idle, c.MaxBytes = cmp.Or(c.Idle, DefaultIdle), cmp.Or(c.MaxBytes, DefaultMaxBytes)
	client := &http.Client{}
	if c.Client != nil {
		copied := *c.Client
		client = &copied
	}
	// A redirect would send the key to another server.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{config: c, base: base, http: client, secrets: findSecrets(c, base)}, nil
}

// WithHeader returns a copy of header, with one more value if it is not empty.
func WithHeader(header http.Header, name, value string) http.Header {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if value != "" {
		header.Set(name, value)
	}
	return header
}

// Post sends body as JSON. It returns an answer only for a status of 2xx. Else
// the error is the context's if it ended, a TransientError if a retry may help,
// or a ProviderError. The caller closes the answer.
func (c *Client) Post(ctx context.Context, path string, body any) (*Answer, error) {
	var payload bytes.Buffer
	enc := json.NewEncoder(&payload)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("encode request to %s: %w", c.config.Provider, err)
	}
	return c.do(ctx, http.MethodPost, path, payload.Bytes())
}

// Get reads a whole answer. Errors are as in Post.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	answer, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return answer.All()
}

// Reader decodes an answer, a whole document or a stream.
type Reader interface {
	Whole(a *Answer) error
	Stream(a *Answer) error
}

// Ask posts a request and lets r read the answer. Errors are as in Post.
func (c *Client) Ask(ctx context.Context, path string, body any, r Reader) error {
	answer, err := c.Post(ctx, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	whole, err := answer.Whole()
	if err != nil {
		return err
	}
	if whole {
		return r.Whole(answer)
	}
	return r.Stream(answer)
}

// Models lists the server's models, sorted. Errors are as in Post.
func (c *Client) Models(ctx context.Context, path string) ([]string, error) {
	raw, err := c.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID String `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, c.Final(fmt.Sprintf("cannot read its list of models: %v", err))
	}
	var names []string
	for _, item := range list.Data {
		names = append(names, string(item.ID))
	}
	slices.Sort(names)
	return names, nil
}

func (c *Client) do(ctx context.Context, method, path string, payload []byte) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	guarded, guard := newGuard(ctx, c.config.Idle)
	request, err := http.NewRequestWithContext(guarded, method, c.base.JoinPath(path).String(), bytes.NewReader(payload))
	if err != nil {
		guard.stop()
		return nil, c.Final("cannot make the request: its address or method is not valid")
	}
	maps.Copy(request.Header, c.config.Header.Clone())
	request.Header.Set("Accept-Encoding", "identity") // a compressed stream would arrive in bursts
	if payload != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if trace := llm.Traceparent(ctx); trace != "" {
		request.Header.Set("Traceparent", trace)
	}
	response, err := c.http.Do(request) //nolint:bodyclose // closed with the answer
	if err != nil {
		err = c.connectionError(guard, err)
		guard.stop()
		return nil, err
	}
	answer := newAnswer(c, guard, response.Body)
	if response.StatusCode/100 != 2 {
		defer answer.Close()
		return nil, c.statusError(guard, response, answer)
	}
	return answer, nil
}

// guard cancels a request when nothing arrives for too long.
type guard struct {
	ended  func() error // the error of the caller's context
	cause  func() error // why the request was cancelled
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

var errIdle = errors.New("idle")

func newGuard(parent context.Context, idle time.Duration) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, &guard{
		ended: parent.Err, cause: func() error { return context.Cause(ctx) }, cancel: cancel,
		timer: time.AfterFunc(idle, func() { cancel(errIdle) }), idle: idle,
	}
}

func (g *guard) reset() { g.timer.Reset(g.idle) }

func (g *guard) timedOut() bool { return errors.Is(g.cause(), errIdle) }

func (g *guard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}

// guardedBody resets its guard on every read and ends after left bytes.
type guardedBody struct {
	body  io.ReadCloser
	guard *guard
	left  int64
}

func (w *guardedBody) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errTooLarge
	}
	n, err := w.body.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	if n > 0 {
		w.guard.reset()
	}
	return n, err
}
