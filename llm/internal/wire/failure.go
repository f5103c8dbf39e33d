package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// maxErrorBody is how much of a refusal is read.
const maxErrorBody = 64 << 10

// Final is an error that trying again does not mend.
func (c *Client) Final(message string) error { return c.provider(message) }

// Transient is an error that may pass.
func (c *Client) Transient(message string) error {
	return &llm.TransientError{Err: c.provider(message)}
}

func (c *Client) provider(message string) *llm.ProviderError {
	return &llm.ProviderError{Provider: c.config.Provider, Model: c.config.Model, Message: message}
}

// Fault is the error for a problem told inside an answer, in place of the rest
// of it.
func (c *Client) Fault(raw []byte) error {
	p := explain(raw)
	err := c.told(p)
	status, isStatus := strconv.Atoi(p.code)
	if isStatus == nil && status >= 400 && status <= 599 {
		err.Status = status
	}
	if p.passes() || err.Status != 0 && retryable(err.Status, nil) && !p.final() || p.code == "" && p.kind == "" {
		return &llm.TransientError{Err: err}
	}
	return err
}

func (c *Client) told(p problem) *llm.ProviderError {
	message := p.message
	if message == "" {
		message = "it gave no reason"
	}
	err := c.provider(c.clean(message, 500))
	err.Code, err.Param = c.clean(p.word(), 80), c.clean(p.param, 80)
	if p.tooLong() {
		err.Err = session.ErrContextLength
	}
	return err
}

// refused is the error for an answer of a status that is no success.
func (c *Client) refused(g *guard, r *http.Response, a *Answer) error {
	body, err := io.ReadAll(io.LimitReader(a.reader, maxErrorBody))
	if err != nil && g.ended() != nil {
		return g.ended()
	}
	p := explain(body)
	told := c.told(p)
	if p.message == "" {
		told.Message = strings.ToLower(http.StatusText(r.StatusCode))
		if told.Message == "" {
			told.Message = "refused"
		}
		told.Message += c.titled(body)
	}
	told.Status = r.StatusCode
	told.RequestID = c.clean(firstOf(r.Header, "X-Request-Id", "Request-Id"), 80)
	if r.StatusCode/100 == 3 {
		told.Message = "it answers from another address; set that one as the base URL"
		return told
	}
	if retryable(r.StatusCode, r.Header) && !p.final() {
		return &llm.TransientError{After: retryAfter(r.StatusCode, r.Header, time.Now()), Err: told}
	}
	return told
}

// unreachable is the error for a request that got no answer.
func (c *Client) unreachable(g *guard, err error) error {
	switch {
	case g.ended() != nil:
		return g.ended()
	case g.fired():
		return c.Transient("nothing arrived for " + g.idle.String())
	}
	text := c.clean(plain(err), 200)
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	if errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &record) {
		return c.Final("no safe connection to " + c.base.Host + ": " + text)
	}
	return c.Transient("no connection to " + c.base.Host + ": " + text)
}

// plain is an error's text without the address of the request: that may hold
// a key.
func plain(err error) string {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it was closed"
	}
	return err.Error()
}

// retryable reports a status that may be another one later.
func retryable(status int, header http.Header) bool {
	switch header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// retryAfter is how long a server asks to be left alone, 0 if it does not.
func retryAfter(status int, header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return duration(ms / 1000)
	}
	asked := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(asked, 64); err == nil {
		return duration(seconds)
	}
	if at, err := http.ParseTime(asked); err == nil {
		return max(at.Sub(now), 0)
	}
	if status != http.StatusTooManyRequests {
		return 0
	}
	var longest time.Duration
	for _, kind := range []string{"Requests", "Tokens"} {
		if header.Get("X-Ratelimit-Remaining-"+kind) != "0" {
			continue // this one is not used up
		}
		if wait, err := time.ParseDuration(header.Get("X-Ratelimit-Reset-" + kind)); err == nil {
			longest = max(longest, wait)
		}
	}
	return longest
}

// duration is a number of seconds that a stranger sent.
func duration(seconds float64) time.Duration {
	const most = 24 * 60 * 60
	if !(seconds > 0) { // also not a number
		return 0
	}
	return time.Duration(min(seconds, most) * float64(time.Second))
}

func firstOf(header http.Header, names ...string) string {
	for _, name := range names {
		if v := header.Get(name); v != "" {
			return v
		}
	}
	return ""
}
