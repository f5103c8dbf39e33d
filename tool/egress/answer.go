package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Answer is the response to a request, read to its end.
type Answer struct {
	Status int
	URL    *url.URL // that answered, after redirects
	Header http.Header
	Body   []byte
	Cut    bool // the body was longer than what was read
}

// ErrTimeout is matched by the errors of answers that took too long.
var ErrTimeout = errors.New("no complete answer")

// Ask sends a request as Do does and reads at most maxBody bytes of the answer.
// It waits no longer than wait for all of it, redirects included.
func (c *Client) Ask(ctx context.Context, r Request, wait time.Duration, maxBody int64) (Answer, error) {
	bounded, stop := context.WithTimeout(ctx, wait)
	defer stop()
	a, err := c.read(bounded, r, maxBody)
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return Answer{}, ctx.Err()
	case bounded.Err() != nil:
		return Answer{}, fmt.Errorf("%w from %s in %v", ErrTimeout, r.URL.Host, wait)
	}
	return Answer{}, err
}

func (c *Client) read(ctx context.Context, r Request, maxBody int64) (Answer, error) {
	resp, err := c.Do(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return Answer{}, fmt.Errorf("read answer after %d bytes: %w", len(body), err)
	}
	a := Answer{Status: resp.StatusCode, URL: resp.Request.URL, Header: resp.Header, Body: body}
	if a.Cut = int64(len(body)) > maxBody; a.Cut {
		a.Body = body[:maxBody]
	}
	return a, nil
}

// Text returns the body as text, and whether it is HTML.
func (a Answer) Text() (text string, html bool, err error) {
	return Text(a.Header.Get("Content-Type"), a.Body)
}

// Headers returns the headers without the cookies the answer sets, which are
// credentials.
func (a Answer) Headers() map[string]string {
	shown := make(map[string]string, len(a.Header))
	for name, values := range a.Header {
		if name != "Set-Cookie" {
			shown[name] = strings.Join(values, ", ")
		}
	}
	return shown
}
