package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/tool"
)

// follow sends a request and goes where it is redirected.
func (f *fetcher) follow(ctx context.Context, r request, u *url.URL) (tool.Result, error) {
	for redirects := 0; ; redirects++ {
		if err := f.guard.address(u); err != nil {
			return tool.Result{}, err
		}
		resp, err := f.send(ctx, r, u)
		if err != nil {
			return tool.Result{}, err
		}
		next, err := target(resp, u)
		if err != nil || next == nil {
			return f.finish(r, u, resp, err)
		}
		_ = resp.Body.Close() // a redirect has nothing to read
		if redirects >= f.config.MaxRedirects {
			return tool.Result{}, fmt.Errorf("redirected more than %d times, last to %s", max(f.config.MaxRedirects, 0), next.Redacted())
		}
		if r, err = r.redirected(resp.StatusCode, u, next); err != nil {
			return tool.Result{}, err
		}
		u = next
	}
}

func (f *fetcher) finish(r request, u *url.URL, resp *http.Response, err error) (tool.Result, error) {
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if err != nil {
		return tool.Result{}, err
	}
	return f.show(r, u, resp)
}

func (f *fetcher) send(ctx context.Context, r request, u *url.URL) (*http.Response, error) {
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", f.config.UserAgent)
	if r.body != "" {
		req.Header.Set("Content-Type", guessed(r.body))
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	return f.client.Do(req)
}

func guessed(body string) string {
	if start := strings.TrimSpace(body); strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// target is where an answer redirects to, nil for an answer that does not.
func target(resp *http.Response, from *url.URL) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, nil
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("redirected to what is not a URL")
	}
	return to, nil
}

// redirected is the request as it may go on. To another origin it takes
// neither headers, which may be credentials, nor a body.
func (r request) redirected(status int, from, to *url.URL) (request, error) {
	keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !keeps && r.method != http.MethodHead {
		r.method, r.body = http.MethodGet, ""
	}
	if from.Scheme == to.Scheme && strings.EqualFold(from.Host, to.Host) {
		return r, nil
	}
	if r.body != "" || (r.method != http.MethodGet && r.method != http.MethodHead) {
		return r, refused("redirected to %s, another place: ask there yourself", to.Redacted())
	}
	r.header = nil
	return r, nil
}
