package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
)

type tavilyArguments struct {
	Query         string `json:"query" jsonschema:"what to search for"`
	MaxResults    *int   `json:"max_results,omitempty" jsonschema:"from 1 to 20; 5 where it is left out"`
	IncludeAnswer bool   `json:"include_answer,omitempty" jsonschema:"also an answer in a few sentences"`
}

func (b *Box) tavilyTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "tavily_search", Nature: tool.ReadOnly,
		Description: "Search the web. The result is JSON, with titles, addresses and excerpts.",
	}, b.tavily)
}

// The service, its key, and the variable that names another place for it.
const (
	tavilyURL  = "https://api.tavily.com"
	tavilyKey  = "TAVILY_API_KEY"
	tavilyBase = "HOLDFAST_TAVILY_BASE_URL"
	tavilyWait = 30 * time.Second
)

func (b *Box) tavily(ctx context.Context, in tavilyArguments) (string, error) {
	query, most := strings.TrimSpace(in.Query), valueOr(in.MaxResults, 5)
	switch {
	case query == "":
		return "", &session.InvalidError{Field: "query", Reason: "is empty"}
	case most < 1 || most > 20:
		return "", &session.InvalidError{Field: "max_results", Reason: "is not from 1 to 20"}
	}
	key := strings.TrimSpace(b.config.Getenv(tavilyKey))
	if key == "" {
		return "", errors.New(tavilyKey + " is not set")
	}
	client, u, err := b.tavilyClient()
	if err != nil {
		return "", err
	}
	body, err := encodeJSON(map[string]any{"query": query, "max_results": most, "include_answer": in.IncludeAnswer})
	if err != nil {
		return "", err
	}
	used := secrets{tavilyKey: key}
	a, err := ask(ctx, client, egress.Request{Method: http.MethodPost, URL: u, Body: body, Header: http.Header{
		"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"},
	}}, tavilyWait)
	switch {
	case err != nil:
		return "", errors.New(used.mask(err.Error()))
	case a.status != http.StatusOK:
		return "", fmt.Errorf("the search service answered with status %d: %s", a.status, tool.Head(used.mask(a.text), 1000))
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(used.mask(a.text))); err != nil {
		return "", errors.New("the search service did not answer with JSON")
	}
	return out.String(), nil
}

// tavilyClient reaches the service. Where that is, is the user's own choice,
// not the model's, and need not be public.
func (b *Box) tavilyClient() (*egress.Client, *url.URL, error) {
	var c egress.Config
	base := tavilyURL
	if other := b.config.Getenv(tavilyBase); other != "" {
		base = other
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/") + "/search")
	if err != nil || u.Host == "" {
		return nil, nil, errors.New(tavilyBase + " is not a URL")
	}
	if base != tavilyURL {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		c.Private = []string{net.JoinHostPort(u.Hostname(), port)}
	}
	client, err := egress.New(c)
	return client, u, err
}
