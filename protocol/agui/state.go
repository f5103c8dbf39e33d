package agui

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// variablesOf returns the state of a thread: the variables of the session, which
// its agent reads and writes as its memory.
func variablesOf(s session.Session) session.Values {
	values := session.Values{}
	for key, v := range s.Variables() {
		values[key] = v.Value
	}
	return values
}

// storeState stores what the client has changed. A key that it leaves out stays.
// Nothing is stored where one cannot be.
func (x *exchange) storeState(s session.Session) (session.Session, error) {
	have := variablesOf(s)
	changed := slices.DeleteFunc(slices.Sorted(maps.Keys(x.in.state)), func(key string) bool { return sameJSON(have[key], x.in.state[key]) })
	tried := s
	for _, key := range changed {
		var err error
		if tried, err = tried.WithVariable(key, x.in.state[key], x.Now()); err != nil {
			return s, err
		}
	}
	for _, key := range changed {
		var err error
		store := holdfast.StoreVariable{Key: key, Value: x.in.state[key]}
		if s, err = x.Runtime.Execute(x.Request.Context(), s.ID(), store, holdfast.IfVersion(s.Version())); err != nil {
			return s, err
		}
	}
	return s, nil
}

func sameJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return (a == nil) == (b == nil)
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

type stateSnapshot struct {
	Type     string         `json:"type"`
	Snapshot session.Values `json:"snapshot"`
}

type stateDelta struct {
	Type  string      `json:"type"`
	Delta []operation `json:"delta"`
}

// operation is of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// startState brings the client to the state of the thread.
func (e *encoder) startState() {
	if !maps.EqualFunc(e.state, e.in.state, sameJSON) {
		e.send(stateSnapshot{"STATE_SNAPSHOT", e.state})
	}
}

// changeState shows a variable that the agent wrote.
func (e *encoder) changeState(c session.Change) {
	switch c := c.(type) {
	case session.VariableStored:
		if sameJSON(e.state[c.Key], c.Value) {
			return
		}
		e.state[c.Key] = c.Value
		path := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(c.Key)
		e.send(stateDelta{"STATE_DELTA", []operation{{"add", path, c.Value}}})
	case session.VariableDeleted:
		if _, there := e.state[c.Key]; there {
			delete(e.state, c.Key)
			e.send(stateSnapshot{"STATE_SNAPSHOT", e.state})
		}
	}
}
