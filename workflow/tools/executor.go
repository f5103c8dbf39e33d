package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// executor is a web service of the spec and its tool.
type executor struct {
	spec.HTTPExecutor
	base *url.URL
	tool tool.Tool
}

func (b *Box) makeExecutors() error {
	for _, e := range b.config.Spec.Tools.HTTPExecutors {
		if slices.ContainsFunc(b.executors, func(earlier executor) bool { return earlier.ID == e.ID }) {
			b.config.Warn(fmt.Sprintf("the web service %q is defined twice; the first one is used", e.ID))
			continue
		}
		if _, native := b.native[e.ID]; native || e.ID == skillName {
			b.config.Warn(fmt.Sprintf("the web service %q has the name of a tool that comes with the program, and takes its place", e.ID))
		}
		base, err := url.Parse(e.BaseURL)
		if err != nil {
			return &session.InvalidError{Field: "base_url", Reason: fmt.Sprintf("of %q is not a URL", e.ID)}
		}
		made := executor{HTTPExecutor: e, base: base}
		made.tool, err = newTool(tool.Spec{
			Name: ExecutorName(e.ID), Nature: tool.Once, Description: made.describe(),
		}, func(ctx context.Context, in executorArguments) (string, error) { return b.execute(ctx, made, in) })
		if err != nil {
			return err
		}
		b.executors = append(b.executors, made)
	}
	return nil
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ExecutorName returns the name of a web service's tool: its id, if providers
// accept it. Otherwise every character but letters, digits, hyphens and
// underscores is replaced, and a hash keeps the name distinct.
func ExecutorName(id string) string {
	if toolName.MatchString(id) {
		return id
	}
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && toolName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, id)
	sum := sha256.Sum256([]byte(id))
	return plain[:min(len(plain), 53)] + "_" + hex.EncodeToString(sum[:5])
}

func (e executor) describe() string {
	text := e.Description
	if text == "" {
		text = "A web service."
	}
	return fmt.Sprintf("%s Requests go to %s. The result is JSON.", text, e.BaseURL)
}

type executorArguments struct {
	Method          string            `json:"method,omitempty" jsonschema:"GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS; GET where it is left out"`
	Path            string            `json:"path" jsonschema:"what follows the base URL, with its query"`
	JSONData        json.RawMessage   `json:"json_data,omitempty" jsonschema:"the body"`
	HeadersOverride map[string]string `json:"headers_override,omitempty" jsonschema:"headers besides or instead of the usual ones"`
}

// executorAnswer is the result of a web service.
type executorAnswer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// execute sends one request. It looks secrets up for this request alone, and
// masks them in the result: a service may repeat what it was sent.
func (b *Box) execute(ctx context.Context, e executor, in executorArguments) (string, error) {
	method, err := chooseMethod(in.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodHead, http.MethodOptions)
	if err != nil {
		return "", err
	}
	u, err := e.resolve(in.Path)
	if err != nil {
		return "", err
	}
	used := secrets{}
	header, err := b.headers(e, in.HeadersOverride, used)
	if err != nil {
		return "", errors.New(used.mask(err.Error()))
	}
	body := ""
	if data := bytes.TrimSpace(in.JSONData); len(data) > 0 && string(data) != "null" {
		body = string(data)
		if header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
	}
	a, err := ask(ctx, b.client, egress.Request{Method: method, URL: u, Header: header, Body: body}, time.Duration(e.TimeoutMS)*time.Millisecond)
	if err != nil {
		return "", errors.New(used.mask(err.Error()))
	}
	for name, value := range a.headers {
		a.headers[name] = used.mask(value)
	}
	a.text = used.mask(a.text)
	return encodeJSON(executorAnswer{a.status, a.headers, a.excerpt()})
}

// resolve returns the URL of a path of the service. It stays below the base URL.
func (e executor) resolve(path string) (*url.URL, error) {
	bad := func(reason string) error { return &session.InvalidError{Field: "path", Reason: reason} }
	ref, err := url.Parse(path)
	switch {
	case path == "":
		return nil, bad("is empty")
	case err != nil:
		return nil, bad("is not the path of a URL")
	case ref.Scheme != "" || ref.Host != "" || ref.User != nil || strings.HasPrefix(path, "//"):
		return nil, bad("leads to another host; it is what follows " + e.BaseURL)
	case slices.Contains(strings.FieldsFunc(ref.Path, func(r rune) bool { return r == '/' || r == '\\' }), ".."):
		return nil, bad("leads out of " + e.BaseURL)
	}
	u := *e.base
	u.RawPath = strings.TrimSuffix(e.base.EscapedPath(), "/") + "/" + strings.TrimPrefix(ref.EscapedPath(), "/")
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, bad("is not the path of a URL")
	}
	switch {
	case u.RawQuery == "":
		u.RawQuery = ref.RawQuery
	case ref.RawQuery != "":
		u.RawQuery += "&" + ref.RawQuery
	}
	u.Fragment, u.RawFragment = "", ""
	return &u, nil
}

// headers merges the headers of the service, with their secrets, and of a call.
func (b *Box) headers(e executor, override map[string]string, used secrets) (http.Header, error) {
	written := map[string]string{}
	for _, h := range e.Headers {
		written[http.CanonicalHeaderKey(h.Name)] = b.expand(h.Value, used)
	}
	for name, value := range override {
		written[http.CanonicalHeaderKey(name)] = value
	}
	return egress.HeaderOf(written)
}
