// Package wire carries requests to the servers of models and their answers
// back over HTTP. It knows no protocol, only what all of them have in common:
// failures that may pass and failures that are final, streams that break, and
// secrets that must not be seen.
package wire

import (
	"bytes"
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

	"github.com/holdfast-dev/holdfast/session"
)

// Defaults of Config.
const (
	DefaultIdle     = 5 * time.Minute
	DefaultMaxBytes = 64 << 20
)

// Config says where a server is and how it is spoken to. Provider, Model and
// URL are required.
type Config struct {
	Provider string        // in errors
	Model    string        // in errors
	URL      string        // paths are added to it; its query, if it has one, stays
	Header   http.Header   // sent with every request; holds the key
	Client   *http.Client  // nil: http.DefaultTransport and no limit of time
	Idle     time.Duration // between two bytes of an answer, 0: DefaultIdle
	MaxBytes int64         // of one answer, 0: DefaultMaxBytes
}

// Client speaks to one server. It is safe for concurrent use.
type Client struct {
	config  Config
	base    *url.URL
	http    *http.Client
	secrets []string
}

// New checks the configuration. Errors name the field and no secret.
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
			return nil, &session.InvalidError{Field: "Config", Reason: "the value for the header " + name + " has characters that no header takes"}
		}
	}
	if c.Idle < 0 || c.MaxBytes < 0 {
		return nil, &session.InvalidError{Field: "Config.Idle", Reason: "limits are not negative"}
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	client := &http.Client{}
	if c.Client != nil {
		copied := *c.Client
		client = &copied
	}
	// A redirect would carry the key to wherever it points.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{config: c, base: base, http: client, secrets: secretsOf(c, base)}, nil
}

// Post sends body as JSON. The answer is one of status 2xx, anything else is an
// error: of the context if that ended, a TransientError if trying again may
// help, else a ProviderError. The caller closes the answer.
func (c *Client) Post(ctx context.Context, path string, body any) (*Answer, error) {
	var payload bytes.Buffer
	enc := json.NewEncoder(&payload)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("encode request to %s: %w", c.config.Provider, err)
	}
	return c.do(ctx, http.MethodPost, path, payload.Bytes())
}

// Get reads a whole answer. Errors are those of Post.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	answer, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return answer.All()
}

// Reader makes sense of an answer, whole or as it comes.
type Reader interface {
	Whole(a *Answer) error
	Stream(a *Answer) error
}

// Ask posts a request and has its answer read. Errors are those of Post.
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

// Models lists what the server offers, sorted. Errors are those of Post.
func (c *Client) Models(ctx context.Context, path string) ([]string, error) {
	raw, err := c.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID Word `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, c.Final(fmt.Sprintf("its list of models cannot be read: %v", err))
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
		return nil, c.Final("the request cannot be made: its address or method is not valid")
	}
	maps.Copy(request.Header, c.config.Header.Clone())
	request.Header.Set("Accept-Encoding", "identity") // a compressed stream arrives in lumps
	if payload != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request) //nolint:bodyclose // closed with the answer
	if err != nil {
		err = c.unreachable(guard, err)
		guard.stop()
		return nil, err
	}
	answer := newAnswer(c, guard, response.Body)
	if response.StatusCode/100 != 2 {
		defer answer.Close()
		return nil, c.refused(guard, response, answer)
	}
	return answer, nil
}

// guard ends a request when nothing arrives for too long.
type guard struct {
	ended  func() error // why the caller's context ended, if it did
	cause  func() error // why the request ended, if it did
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

// alive says that something arrived.
func (g *guard) alive() { g.timer.Reset(g.idle) }

// fired reports that nothing arrived in time.
func (g *guard) fired() bool { return errors.Is(g.cause(), errIdle) }

func (g *guard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}

// watched is a body that keeps its guard awake and ends at a number of bytes.
type watched struct {
	body  io.ReadCloser
	guard *guard
	left  int64
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errTooLarge
	}
	n, err := w.body.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	if n > 0 {
		w.guard.alive()
	}
	return n, err
}
