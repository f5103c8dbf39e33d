package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/protocol"
)

// fail returns an error as the API reports it.
func (s *Server) fail(ctx context.Context, err error) error {
	return withHeaders(s.problemOf(ctx, err))
}

// problemOf returns an error as a problem, and logs what is the server's own.
func (s *Server) problemOf(ctx context.Context, err error) *problem.Problem {
	p := problem.Of(err)
	if p.Status >= http.StatusInternalServerError {
		s.log.ErrorContext(ctx, "request failed", "code", p.Code, "error", err)
	}
	return p
}

// withHeaders adds the headers that say when to repeat a request.
func withHeaders(p *problem.Problem) error {
	headers := http.Header{}
	if p.RetryAfter > 0 {
		headers.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Code == "unknown_outcome" { // clients that repeat by themselves must not
		headers.Set("X-Should-Retry", "false")
	}
	if len(headers) == 0 {
		return p
	}
	return huma.ErrorWithHeaders(p, headers)
}

// asProblem turns the errors that huma makes itself, for requests that do not
// fit their schema, into problems like all others.
func asProblem(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := statusProblem(model.Status, model.Detail)
	for _, e := range model.Errors {
		p.Errors = append(p.Errors, problem.FieldError{Field: strings.TrimPrefix(e.Location, "body."), Reason: e.Message})
	}
	return p, nil
}

func statusProblem(status int, detail string) *problem.Problem {
	return problem.New(status, codeOf(status), detail)
}

// codeOf names a status that the domain has no error for.
func codeOf(status int) string {
	switch status {
	case http.StatusUnprocessableEntity:
		return "invalid"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusUnauthorized:
		return problem.CodeUnauthenticated
	case http.StatusForbidden:
		return problem.CodeForbidden
	case http.StatusNotFound:
		return problem.CodeNoRoute
	}
	if status >= http.StatusInternalServerError {
		return problem.CodeInternal
	}
	return problem.CodeBadRequest
}

// writeProblem writes a problem outside of the routes that huma serves.
func writeProblem(w http.ResponseWriter, p *problem.Problem) {
	protocol.SetProblemHeader(w.Header(), p, problem.ContentType)
	body, err := json.Marshal(p)
	if err != nil { // a time that JSON cannot express
		body = []byte("{}")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the reader may be gone
}
