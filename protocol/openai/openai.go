// Package openai answers in the way of OpenAI's API: responses, conversations,
// models and chat completions. A conversation is a session. A response is a turn
// of one: its id names the session and the change after which it began, so
// nothing is kept beside the session.
package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/protocol"
)

// Protocol is the protocol. Make it with New.
type Protocol struct {
	attended *attended
}

// New makes the protocol.
func New() Protocol { return Protocol{attended: &attended{turns: map[protocol.Turn]int{}}} }

// Prefix is /openai/.
func (Protocol) Prefix() string { return "/openai/" }

// Routes are the routes.
func (p Protocol) Routes() []protocol.Route {
	var routes []protocol.Route
	add := func(pattern string, scope apikey.Scope, serve func(*exchange) error) {
		method, path, _ := strings.Cut(pattern, " ")
		routes = append(routes, protocol.Route{Pattern: method + " /openai/v1" + path, Scope: scope, Serve: func(x *protocol.Exchange) error {
			return serve(&exchange{Exchange: x, attended: p.attended})
		}})
	}
	add("POST /responses", apikey.Write, createResponse)
	add("POST /responses/input_tokens", apikey.Read, countInput)
	add("POST /responses/compact", apikey.Write, compactResponse)
	add("GET /responses/{id}", apikey.Read, retrieveResponse)
	add("DELETE /responses/{id}", apikey.Write, deleteResponse)
	add("POST /responses/{id}/cancel", apikey.Write, cancelResponse)
	add("GET /responses/{id}/input_items", apikey.Read, listInputItems)
	add("POST /conversations", apikey.Write, createConversation)
	add("GET /conversations/{id}", apikey.Read, retrieveConversation)
	add("POST /conversations/{id}", apikey.Write, updateConversation)
	add("DELETE /conversations/{id}", apikey.Write, deleteConversation)
	add("POST /conversations/{id}/items", apikey.Write, addItems)
	add("GET /conversations/{id}/items", apikey.Read, listItems)
	add("GET /conversations/{id}/items/{item}", apikey.Read, retrieveItem)
	add("POST /chat/completions", apikey.Write, createCompletion)
	add("GET /models", apikey.Read, listModels)
	add("GET /models/{id...}", apikey.Read, retrieveModel)
	return routes
}

// exchange is one request and its response.
type exchange struct {
	*protocol.Exchange
	attended *attended
}

// repeated reports that a client sends a request again because it got no answer.
func (x *exchange) repeated() bool {
	n, err := strconv.Atoi(x.Request.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// apiError is an error as clients read it.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// errorOf returns the error and the status of a problem.
func errorOf(p *problem.Problem) (apiError, int) {
	status, code := p.Status, p.Code
	e := apiError{Message: p.Detail, Type: "invalid_request_error", Code: &code}
	if e.Message == "" {
		e.Message = p.Title
	}
	if len(p.Errors) > 0 {
		field := strings.TrimPrefix(p.Errors[0].Field, "message.")
		e.Param = &field
	}
	switch {
	case status == http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	case status == http.StatusUnauthorized:
		e.Type = "authentication_error"
	case status == http.StatusForbidden:
		e.Type = "permission_error"
	case status == http.StatusTooManyRequests:
		e.Type = "rate_limit_error"
	case status >= http.StatusInternalServerError, status < http.StatusBadRequest:
		e.Type = "server_error"
		status = max(status, http.StatusInternalServerError)
	}
	return e, status
}

// WriteProblem writes an error in the vendor's shape. Clients repeat by
// themselves what failed with 409, 429 or 5xx: a repetition finds the turn that
// the first request began. Only where nobody knows what was saved they are told
// not to.
func (Protocol) WriteProblem(w http.ResponseWriter, p *problem.Problem) {
	e, status := errorOf(p)
	protocol.SetProblemHeader(w.Header(), p, "application/json")
	if p.Code == "unknown_outcome" || p.Saved() {
		w.Header().Set("X-Should-Retry", "false")
	}
	body, err := json.Marshal(struct {
		Error apiError `json:"error"`
	}{e})
	if err != nil {
		body = []byte(`{"error":{}}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the reader may be gone
}

// refuse refuses a parameter of a request.
func refuse(param, format string, args ...any) error {
	p := problem.New(http.StatusBadRequest, "invalid", fmt.Sprintf(format, args...))
	p.Errors = []problem.FieldError{{Field: param, Reason: p.Detail}}
	return p
}

func missing(what, id string) error {
	return problem.New(http.StatusNotFound, "not_found", what+" with id '"+id+"' not found.")
}

// decode reads the body of a request. A parameter that is not known is refused
// by its name; one that is null counts as not given.
func (x *exchange) decode(into any) error {
	given, err := protocol.ReadObject(x.Request.Body)
	if err != nil {
		return err
	}
	for name, value := range given {
		if string(value) == "null" {
			delete(given, name)
		}
	}
	body, err := json.Marshal(given)
	if err != nil {
		return err
	}
	return decodeStrict(body, into)
}

// decodeStrict decodes an object and refuses what it does not know by name.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
		name = strings.Trim(name, `"`)
		return refuse(name, "Unsupported parameter: '%s' is not supported here.", name)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return refuse(wrong.Field, "'%s' cannot be a %s.", wrong.Field, wrong.Value)
	}
	return err
}

// model is what a client may name as a model.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// agentPrefix begins the names of agents among the models.
const agentPrefix = "agent/"

func (x *exchange) models() []model {
	list := []model{}
	for _, name := range x.Host.Models() {
		list = append(list, model{ID: name, Object: "model", OwnedBy: "holdfast"})
	}
	for _, name := range x.Host.Agents() {
		list = append(list, model{ID: agentPrefix + name, Object: "model", OwnedBy: "holdfast"})
	}
	return list
}

func listModels(x *exchange) error {
	return x.Write(page[model]{Object: "list", Data: x.models()})
}

func retrieveModel(x *exchange) error {
	for _, m := range x.models() {
		if m.ID == x.Request.PathValue("id") {
			return x.Write(m)
		}
	}
	return missing("Model", x.Request.PathValue("id"))
}

// page is a part of a list.
type page[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id,omitempty"`
	LastID  *string `json:"last_id,omitempty"`
	HasMore bool    `json:"has_more"`
}
