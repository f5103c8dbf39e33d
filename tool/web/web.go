// Package web lets an agent read and call the web, but not the network the
// program runs in.
package web

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

// ErrRefused is matched by the errors of requests that may not be made.
var ErrRefused = egress.ErrRefused

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver = egress.Resolver

// Config says where requests may go and how long they may take. The zero value
// reaches every public address and no other. Proxies of the environment are
// not used: nobody could check where they lead.
type Config struct {
	// Hosts that may be asked, and hosts that may not, which wins; no list of
	// allowed ones allows all. "example.com" is that host alone,
	// "*.example.com" every host below it.
	Allow, Deny []string

	// Check may refuse a URL for reasons of its own, redirects included.
	Check func(u *url.URL) error

	// Private lists host:port that may be reached wherever they are.
	Private []string

	Timeout      time.Duration // for the whole answer, redirects included; 0: 30 s
	MaxBody      int64         // bytes that are read, unpacked; 0: 2 MiB
	MaxResult    int           // bytes that are shown; 0: 64 KiB
	MaxRedirects int           // 0: 5, negative: none

	Resolver  Resolver // nil: the system's
	UserAgent string   // "": holdfast
}

// Tools makes http_get, which reads a page, and http_request, which sends
// whatever it is told to.
func Tools(c Config) ([]tool.Tool, error) {
	c = c.withDefaults()
	client, err := egress.New(egress.Config{
		Allow: c.Allow, Deny: c.Deny, Check: c.Check, Private: c.Private,
		MaxRedirects: c.MaxRedirects, Resolver: c.Resolver, UserAgent: c.UserAgent,
	})
	if err != nil {
		return nil, err
	}
	f := &fetcher{config: c, client: client}
	get, err := tool.Func(tool.Spec{
		Name: "http_get", Effects: tool.Network, Nature: tool.ReadOnly, Timeout: c.Timeout + time.Second, // our own comes first and says more
		Description: "Read a page or a document from the web. HTML comes as Markdown, other text as it is. Long answers are cut.",
	}, func(ctx context.Context, in getArguments) (tool.Result, error) {
		return f.do(ctx, request{method: http.MethodGet, url: in.URL, brief: true})
	})
	if err != nil {
		return nil, err
	}
	send, err := tool.Func(tool.Spec{
		Name: "http_request", Effects: tool.Network | tool.Export, Nature: tool.Once, Timeout: c.Timeout + time.Second,
		Description: "Send an HTTP request and see status, headers and body of the answer.",
	}, func(ctx context.Context, in sendArguments) (tool.Result, error) {
		r, err := in.request()
		if err != nil {
			return tool.Result{}, err
		}
		return f.do(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	return []tool.Tool{get, send}, nil
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 2 << 20
	}
	if c.MaxResult <= 0 {
		c.MaxResult = 64 << 10
	}
	return c
}

type getArguments struct {
	URL string `json:"url" jsonschema:"an http or https URL"`
}

type sendArguments struct {
	URL     string            `json:"url" jsonschema:"an http or https URL"`
	Method  string            `json:"method,omitempty" jsonschema:"GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; GET where it is left out"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// request is what to send. A brief one shows no headers of the answer.
type request struct {
	method, url string
	header      http.Header
	body        string
	brief       bool
}

func (in sendArguments) request() (request, error) {
	r := request{method: strings.ToUpper(in.Method), url: in.URL, body: in.Body}
	switch r.method {
	case "":
		r.method = http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		return r, &session.InvalidError{Field: "method", Reason: fmt.Sprintf("%q is none that can be sent", in.Method)}
	}
	var err error
	r.header, err = egress.HeaderOf(in.Headers)
	return r, err
}

// fetcher sends requests and shows their answers.
type fetcher struct {
	config Config
	client *egress.Client
}

func (f *fetcher) do(ctx context.Context, r request) (tool.Result, error) {
	u, err := url.Parse(r.url)
	if err != nil {
		return tool.Result{}, &session.InvalidError{Field: "url", Reason: "is not a URL"}
	}
	a, err := f.client.Ask(ctx, egress.Request{Method: r.method, URL: u, Header: r.header, Body: r.body}, f.config.Timeout, f.config.MaxBody)
	if err != nil {
		return tool.Result{}, err
	}
	return f.format(r, a)
}

// How many bytes of a page's title and of an answer's headers are shown.
const (
	maxTitle   = 1 << 10
	maxHeaders = 8 << 10
)

// format puts an answer in words. One with an error status is an error result.
func (f *fetcher) format(r request, a egress.Answer) (tool.Result, error) {
	heading := ""
	text, html, err := a.Text()
	switch {
	case err != nil:
		return tool.Result{}, fmt.Errorf("status %d: %w", a.Status, err)
	case html:
		title, published := describe(text)
		if title != "" {
			heading = fmt.Sprintf("Title: %s\n", tool.Head(title, maxTitle))
		}
		if published != "" {
			heading += fmt.Sprintf("Published: %s\n", published)
		}
		text = Markdown(text, a.URL)
	case text == "":
		text = "[no content]"
	}
	text = tool.Head(tool.Plain(text), f.config.MaxResult)
	if a.Cut {
		text += fmt.Sprintf("\n[cut: the answer is longer than %d bytes]", f.config.MaxBody)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Status: %d\n", a.Status)
	if at := a.URL.String(); at != r.url {
		fmt.Fprintf(&b, "URL: %s\n", at)
	}
	b.WriteString(heading)
	if !r.brief {
		headers, err := json.Marshal(a.Headers())
		if err != nil {
			return tool.Result{}, fmt.Errorf("encode headers: %w", err)
		}
		fmt.Fprintf(&b, "Headers: %s\n", tool.Head(tool.Plain(string(headers)), maxHeaders))
	}
	if r.method != http.MethodHead {
		fmt.Fprintf(&b, "Body:\n%s", text)
	}
	return tool.Result{Content: b.String(), IsError: a.Status >= 400}, nil
}
