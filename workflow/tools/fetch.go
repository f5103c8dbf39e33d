package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
	"github.com/holdfast-dev/holdfast/tool/web"
)

type fetchArguments struct {
	URL            string            `json:"url" jsonschema:"an http or https URL"`
	Mode           string            `json:"mode,omitempty" jsonschema:"html for the page as it is, or markdown for its text; html where it is left out"`
	Timeout        *float64          `json:"timeout,omitempty" jsonschema:"seconds; 10 where it is left out"`
	Headers        map[string]string `json:"headers,omitempty"`
	IncludeRawHTML bool              `json:"include_raw_html,omitempty" jsonschema:"with markdown, the page as it is, too"`
}

// htmlPage and markdownPage are the two results of web_fetch.
type htmlPage struct {
	Status  int               `json:"status"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

type markdownPage struct {
	Status   int     `json:"status"`
	URL      string  `json:"url"`
	Markdown string  `json:"markdown"`
	RawHTML  *string `json:"raw_html,omitempty"`
}

func (b *Box) fetchTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "web_fetch", Nature: tool.ReadOnly,
		Description: "Read a web page at a public address, as it is or as Markdown. The result is JSON.",
	}, b.fetch)
}

func (b *Box) fetch(ctx context.Context, in fetchArguments) (string, error) {
	if in.Mode != "" && in.Mode != "html" && in.Mode != "markdown" {
		return "", &session.InvalidError{Field: "mode", Reason: fmt.Sprintf("%q is not html or markdown", in.Mode)}
	}
	u, err := parseURL("url", in.URL)
	if err != nil {
		return "", err
	}
	wait, err := seconds(in.Timeout, 10)
	if err != nil {
		return "", err
	}
	header, err := egress.HeaderOf(in.Headers)
	if err != nil {
		return "", err
	}
	if header.Get("Accept") == "" {
		header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	}
	r := egress.Request{Method: http.MethodGet, URL: u, Header: header}
	a, err := ask(ctx, b.client, r, wait)
	if err != nil && ctx.Err() == nil && !errors.Is(err, egress.ErrRefused) {
		a, err = ask(ctx, b.client, r, wait) // networks have hiccups: once more
	}
	if err != nil {
		return "", err
	}
	if in.Mode != "markdown" {
		return encodeJSON(htmlPage{a.status, a.url.String(), a.headers, a.excerpt()})
	}
	page := markdownPage{Status: a.status, URL: a.url.String(), Markdown: a.excerpt()}
	if a.html {
		page.Markdown = tool.Head(web.Markdown(a.text, a.url), maxShown)
	}
	if in.IncludeRawHTML {
		raw := a.excerpt()
		page.RawHTML = &raw
	}
	return encodeJSON(page)
}
