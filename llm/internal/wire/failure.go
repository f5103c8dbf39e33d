package wire

import (
	"cmp"
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

// maxErrorBody is the most bytes to read of an error response.
const maxErrorBody = 64 << 10

// Final returns an error that a retry does not solve.
func (c *Client) Final(message string) error { return c.newError(message) }

// Transient returns an error that a retry may solve.
func (c *Client) Transient(message string) error {
	return &llm.TransientError{Err: c.newError(message)}
}

func (c *Client) newError(message string) *llm.ProviderError {
	return &llm.ProviderError{Provider: c.config.Provider, Model: c.config.Model, Message: message}
}

// Fault returns the error for a problem that a server reports inside an answer.
func (c *Client) Fault(raw []byte) error {
	p := readProblem(raw)
	err := c.providerError(p)
	status, isStatus := strconv.Atoi(p.code)
	if isStatus == nil && status >= 400 && status <= 599 {
		err.Status = status
	}
	if p.isTransient() || err.Status != 0 && retryable(err.Status, nil) && !p.isFinal() || p.code == "" && p.kind == "" {
		return &llm.TransientError{Err: err}
	}
	return err
}

func (c *Client) providerError(p problem) *llm.ProviderError {
	err := c.newError(c.clean(cmp.Or(p.message, "it gave no reason"), 500))
	err.Code, err.Param = c.clean(p.name(), 80), c.clean(p.param, 80)
	if p.tooLong() {
		err.Err = session.ErrContextLength
	}
	return err
}

// statusError returns the error for a response with a status other than 2xx.
func (c *Client) statusError(g *guard, r *http.Response, a *Answer) error {
	body, err := io.ReadAll(io.LimitReader(a.reader, maxErrorBody))
	if err != nil && g.ended() != nil {
		return g.ended()
	}
	p := readProblem(body)
	refused := c.providerError(p)
	if p.message == "" {
		refused.Message = cmp.Or(strings.ToLower(http.StatusText(r.StatusCode)), "refused") + c.pageTitle(body)
	}
	refused.Status = r.StatusCode
	refused.RequestID = c.clean(cmp.Or(r.Header.Get("X-Request-Id"), r.Header.Get("Request-Id")), 80)
	if r.StatusCode/100 == 3 {
		refused.Message = "it redirects to another address; set that one as the base URL"
		return refused
	}
	if retryable(r.StatusCode, r.Header) && !p.isFinal() {
		return &llm.TransientError{After: retryAfter(r.StatusCode, r.Header, time.Now()), Err: refused}
	}
	return refused
}

// connectionError returns the error for a request without a response.
func (c *Client) connectionError(g *guard, err error) error {
	switch {
	case g.ended() != nil:
		return g.ended()
	case g.timedOut():
		return c.Transient("nothing arrived for " + g.idle.String())
	}
	text := c.clean(errorText(err), 200)
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	if errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &record) {
		return c.Final("no secure connection to " + c.base.Host + ": " + text)
	}
	return c.Transient("no connection to " + c.base.Host + ": " + text)
}

// errorText returns an error's text without the address of the request, which
// may contain a key.
func errorText(err error) string {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the server closed it"
	}
	return err.Error()
}

// retryable reports whether a retry may succeed.
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

// retryAfter returns how long the server asks to wait; 0 if it does not.
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
			continue // this limit is not reached
		}
		if wait, err := time.ParseDuration(header.Get("X-Ratelimit-Reset-" + kind)); err == nil {
			longest = max(longest, wait)
		}
	}
	return longest
}

// duration converts seconds that a server sent, at most a day.
func duration(seconds float64) time.Duration {
	const most = 24 * 60 * 60
	if !(seconds > 0) { // also not a number
		return 0
	}
	return time.Duration(min(seconds, most) * float64(time.Second))
}
