package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
)

// How much of an answer is read and how much of it is shown, and how long one
// may be waited for.
const (
	maxBody  = 2 << 20
	maxShown = 64 << 10
	maxWait  = 10 * time.Minute
)

type requestArguments struct {
	URL     string            `json:"url" jsonschema:"an http or https URL"`
	Method  string            `json:"method,omitempty" jsonschema:"GET, POST, PUT or DELETE; GET where it is left out"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Timeout *float64          `json:"timeout,omitempty" jsonschema:"seconds; 30 where it is left out"`
}

func (b *Box) requestTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "http_request", Nature: tool.Once,
		Description: "Send an HTTP request to a public address and see status, headers and body of the answer.",
	}, b.request)
}

func (b *Box) request(ctx context.Context, in requestArguments) (string, error) {
	method, err := methodOf(in.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete)
	if err != nil {
		return "", err
	}
	u, err := parseURL("url", in.URL)
	if err != nil {
		return "", err
	}
	header, err := egress.HeaderOf(in.Headers)
	if err != nil {
		return "", err
	}
	wait, err := seconds(in.Timeout, 30)
	if err != nil {
		return "", err
	}
	a, err := ask(ctx, b.client, egress.Request{Method: method, URL: u, Header: header, Body: in.Body}, wait)
	if err != nil {
		return "", err
	}
	headers, err := json.MarshalIndent(a.headers, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode headers: %w", err)
	}
	return fmt.Sprintf("Status: %d\n\nHeaders:\n%s\n\nBody:\n%s", a.status, headers, a.shown()), nil
}

// methodOf is one of the methods there are; the first is meant where none is
// named.
func methodOf(written string, all ...string) (string, error) {
	if written == "" {
		return all[0], nil
	}
	for _, m := range all {
		if strings.EqualFold(m, written) {
			return m, nil
		}
	}
	return "", &session.InvalidError{Field: "method", Reason: fmt.Sprintf("%q is not one of %s", written, strings.Join(all, ", "))}
}

// seconds is how long to wait.
func seconds(written *float64, otherwise float64) (time.Duration, error) {
	s := or(written, otherwise)
	if s <= 0 || s > maxWait.Seconds() {
		return 0, &session.InvalidError{Field: "timeout", Reason: fmt.Sprintf("is not more than 0 and at most %.0f seconds", maxWait.Seconds())}
	}
	return time.Duration(s * float64(time.Second)), nil
}

// answer is what came back.
type answer struct {
	status  int
	url     *url.URL // that answered
	headers map[string]string
	text    string
	html    bool
}

// shown is the text, or as much of it as fits.
func (a answer) shown() string { return tool.Head(a.text, maxShown) }

// errSlow is matched by errors of answers that were not waited for any longer.
var errSlow = errors.New("no complete answer")

// ask sends a request and reads its answer. What is no text is said to be
// none.
func ask(ctx context.Context, client *egress.Client, r egress.Request, wait time.Duration) (answer, error) {
	bounded, stop := context.WithTimeout(ctx, wait)
	defer stop()
	a, err := exchange(bounded, client, r)
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case bounded.Err() != nil:
		return answer{}, fmt.Errorf("%w from %s in %v", errSlow, r.URL.Host, wait)
	}
	return answer{}, err
}

func exchange(ctx context.Context, client *egress.Client, r egress.Request) (answer, error) {
	resp, err := client.Do(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return answer{}, fmt.Errorf("read answer after %d bytes: %w", len(raw), err)
	}
	long := len(raw) > maxBody
	a := answer{status: resp.StatusCode, url: resp.Request.URL, headers: headersOf(resp.Header)}
	a.text, a.html, err = egress.Text(resp.Header.Get("Content-Type"), raw[:min(len(raw), maxBody)])
	if err != nil {
		a.text = "[" + err.Error() + "]"
		return a, nil
	}
	a.text = tool.Plain(a.text)
	if long {
		a.text += fmt.Sprintf("\n[cut: the answer is longer than %d bytes]", maxBody)
	}
	return a, nil
}

// headersOf are the headers of an answer, without the cookies it sets, which
// are credentials.
func headersOf(h http.Header) map[string]string {
	shown := make(map[string]string, len(h))
	for name, values := range h {
		if name != "Set-Cookie" {
			shown[strings.ToLower(name)] = tool.Plain(strings.Join(values, ", "))
		}
	}
	return shown
}
