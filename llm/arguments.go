package llm

import (
	"bytes"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/session"
)

// malformedKey is the only key of arguments that were not an object.
const malformedKey = "malformed_arguments"

// Arguments makes an object of the text that a model wrote as arguments, so that
// bad arguments never lose an answer. No text is the empty object. Text that is
// not a JSON object is kept under a key that no tool uses: Malformed finds it,
// and a schema refuses it.
func Arguments(text string) json.RawMessage {
	raw := bytes.TrimSpace([]byte(text))
	var inner string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &inner) == nil { // an object encoded twice
		raw = bytes.TrimSpace([]byte(inner))
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage(`{}`)
	case raw[0] == '{' && json.Valid(raw):
		return raw
	}
	kept, err := session.JSON(map[string]string{malformedKey: text})
	if err != nil { // a string always encodes
		return json.RawMessage(`{"` + malformedKey + `":""}`)
	}
	return kept
}

// Malformed returns the text that a model wrote instead of an object, if it did.
func Malformed(arguments json.RawMessage) (text string, malformed bool) {
	if !bytes.Contains(arguments, []byte(malformedKey)) {
		return "", false
	}
	var found map[string]json.RawMessage
	if json.Unmarshal(arguments, &found) != nil || len(found) != 1 {
		return "", false
	}
	raw, ok := found[malformedKey]
	return text, ok && json.Unmarshal(raw, &text) == nil
}
