// Package client reaches the sessions of a server with the verbs of a runtime:
// a Client has the methods of a holdfast.Runtime with the same arguments and
// results. Where a runtime takes the id of a session, a client also takes the
// beginning of one or a name.
//
// Errors have the types that the runtime returns: errors.Is and errors.As work
// as if the session were in this process. A request that got no answer is sent
// again with the same idempotency key, so it takes effect once.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// Config says which server to reach. URL and Key are required.
type Config struct {
	URL     string        // such as http://127.0.0.1:8420
	Key     string        // an API key
	HTTP    *http.Client  // nil: one without a time limit, because turns take long
	Retries int           // of requests that got no answer, or one that asks to come again; 0: 4, negative: none
	Backoff time.Duration // before the first retry, doubled each time; 0: 200 ms
}

// Client reaches one server. It is safe for concurrent use.
type Client struct {
	base *url.URL
	c    Config
}

// New checks the configuration. It does not reach the server.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, &session.InvalidError{Field: "URL", Reason: fmt.Sprintf("%q is not an address such as http://127.0.0.1:8420", c.URL)}
	case c.Key == "":
		return nil, &session.InvalidError{Field: "Key", Reason: "is missing; make one with: holdfast keys create"}
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{}
	}
	c.Retries = cmp.Or(c.Retries, 4)
	c.Backoff = cmp.Or(c.Backoff, 200*time.Millisecond)
	return &Client{base: base, c: c}, nil
}

// UnreachableError says that no server gave an answer, or that what answered is
// none.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string {
	err := e.Err
	var asked *url.Error // it names the address a second time
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return fmt.Sprintf("reach the server %s: %v", e.URL, err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// AnswerError says that a server's answer is not one this program knows: the
// server is of another version. What was asked for may have been done.
type AnswerError struct {
	URL string
	Err error
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("read the answer of the server %s, which may be of another version: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }

var errNoServer = errors.New("what answers there is no Holdfast server")

// newKey returns the header that makes repetitions of one call take effect
// once.
func newKey() http.Header { return http.Header{"Idempotency-Key": {uuid.NewString()}} }

// call is one request.
type call struct {
	method string // "": GET
	path   string
	query  url.Values
	header http.Header
	body   any
}

// sessionPath returns the path of a part of a session.
func sessionPath(ref, part string) string { return "/v1/sessions/" + url.PathEscape(ref) + part }

// request makes a call, again where it got no answer, and reads the answer. It
// returns how often it tried.
func request[T any](ctx context.Context, c *Client, in call) (answer T, tries int, err error) {
	var body []byte
	if in.body != nil {
		if body, err = json.Marshal(in.body); err != nil {
			return answer, 0, fmt.Errorf("encode the request: %w", err)
		}
	}
	for wait := c.c.Backoff; ; wait *= 2 {
		tries++
		data, again, err := c.once(ctx, in, body)
		if err == nil {
			err := json.Unmarshal(data, &answer)
			var syntax *json.SyntaxError
			switch {
			case errors.As(err, &syntax):
				return answer, tries, &UnreachableError{URL: c.base.Redacted(), Err: errNoServer}
			case err != nil:
				return answer, tries, &AnswerError{URL: c.base.Redacted(), Err: err}
			}
			return answer, tries, nil
		}
		if !again || tries > c.c.Retries {
			return answer, tries, err
		}
		select {
		case <-ctx.Done():
			return answer, tries, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once makes a call once. Again says that it may be repeated: no answer came,
// or one that asks for it.
func (c *Client) once(ctx context.Context, in call, body []byte) (answer []byte, again bool, err error) {
	res, err := c.send(ctx, in, body)
	if err != nil {
		return nil, ctx.Err() == nil, &UnreachableError{URL: c.base.Redacted(), Err: err}
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, ctx.Err() == nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if res.StatusCode < 300 {
		return data, false, nil
	}
	err = readProblem(res, data)
	return nil, res.Header.Get("Retry-After") != "" && res.StatusCode != http.StatusConflict, err
}

func (c *Client) send(ctx context.Context, in call, body []byte) (*http.Response, error) {
	at := *c.base
	at.Path = strings.TrimSuffix(at.Path, "/")
	target := at.String() + in.path
	if len(in.query) > 0 {
		target += "?" + in.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(in.method, http.MethodGet), target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range in.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+c.c.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.c.HTTP.Do(req)
}

// readProblem returns the error that a response stands for.
func readProblem(res *http.Response, data []byte) error {
	var p problem.Problem
	if err := json.Unmarshal(data, &p); err != nil || p.Code == "" {
		return &UnreachableError{URL: res.Request.URL.Redacted(), Err: fmt.Errorf("%w: %s", errNoServer, res.Status)}
	}
	return p.Err()
}
