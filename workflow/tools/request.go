package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
)

// Bounds of an answer: bytes read, bytes shown, and how long to wait for it.
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
	method, err := chooseMethod(in.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete)
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
	return fmt.Sprintf("Status: %d\n\nHeaders:\n%s\n\nBody:\n%s", a.status, headers, a.excerpt()), nil
}

// chooseMethod returns the method as the list has it; the first by default.
func chooseMethod(written string, all ...string) (string, error) {
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

// seconds checks how long to wait.
func seconds(written *float64, otherwise float64) (time.Duration, error) {
	s := valueOr(written, otherwise)
	if s <= 0 || s > maxWait.Seconds() {
		return 0, &session.InvalidError{Field: "timeout", Reason: fmt.Sprintf("is not more than 0 and at most %.0f seconds", maxWait.Seconds())}
	}
	return time.Duration(s * float64(time.Second)), nil
}

// answer is an answer in the form the results show.
type answer struct {
	status  int
	url     *url.URL // that answered
	headers map[string]string
	text    string
	html    bool
}

// excerpt returns as much of the text as a result shows.
func (a answer) excerpt() string { return tool.Head(a.text, maxShown) }

// ask sends a request and reads its answer. The text of an answer that has none
// says so.
func ask(ctx context.Context, client *egress.Client, r egress.Request, wait time.Duration) (answer, error) {
	got, err := client.Ask(ctx, r, wait, maxBody)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: got.Status, url: got.URL, headers: map[string]string{}}
	for name, value := range got.Headers() {
		a.headers[strings.ToLower(name)] = tool.Plain(value)
	}
	a.text, a.html, err = got.Text()
	if err != nil {
		a.text = "[" + err.Error() + "]"
		return a, nil
	}
	a.text = tool.Plain(a.text)
	if got.Cut {
		a.text += fmt.Sprintf("\n[cut: the answer is longer than %d bytes]", maxBody)
	}
	return a, nil
}
