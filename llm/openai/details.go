package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// detailsPart is the type of the part that keeps reasoning in the form that its
// provider wants back, with signatures.
const detailsPart = "reasoning_details"

// details is such a part. It is sent back only to its own provider.
type details struct {
	Type     string           `json:"type"`
	Provider string           `json:"provider"`
	Details  []map[string]any `json:"details"`
}

// detail is one entry, collected while it is streamed.
type detail struct {
	fields map[string]json.RawMessage
	texts  map[string]*strings.Builder // of fields that are streamed in pieces
}

// addDetails adds entries or pieces of entries; pieces have the index and type
// of their entry.
func addDetails(have []*detail, raw json.RawMessage) []*detail {
	var more []map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &more) != nil {
		return have
	}
	for _, next := range more {
		if n := len(have); n == 0 || !have[n-1].continuedBy(next) {
			have = append(have, &detail{fields: map[string]json.RawMessage{}, texts: map[string]*strings.Builder{}})
		}
		have[len(have)-1].add(next)
	}
	return have
}

func (d *detail) continuedBy(next map[string]json.RawMessage) bool {
	return next["index"] != nil && bytes.Equal(d.fields["index"], next["index"]) && bytes.Equal(d.fields["type"], next["type"])
}

func (d *detail) add(next map[string]json.RawMessage) {
	for key, value := range next {
		var piece string
		switch {
		case string(value) == "null":
			if d.fields[key] == nil {
				d.fields[key] = value
			}
		case (key == "text" || key == "summary" || key == "data") && json.Unmarshal(value, &piece) == nil:
			if d.texts[key] == nil {
				d.texts[key] = &strings.Builder{}
			}
			d.texts[key].WriteString(piece)
		default:
			d.fields[key] = bytes.Clone(value)
		}
	}
}

// detailsPartOf returns the part that keeps the entries, if there are any.
func detailsPartOf(provider string, list []*detail) (session.Part, bool) {
	kept := details{Type: detailsPart, Provider: provider}
	for _, d := range list {
		whole := map[string]any{}
		for key, value := range d.fields {
			whole[key] = value
		}
		for key, text := range d.texts {
			whole[key] = text.String()
		}
		kept.Details = append(kept.Details, whole)
	}
	raw, err := session.JSON(kept)
	if len(list) == 0 || err != nil { // decoded values always encode
		return session.Part{}, false
	}
	return session.Part{Type: detailsPart, Raw: raw}, true
}
