package strands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// ErrTorn reports a session.json and a pattern_state.json that were not written
// together: a crash came between the two. It comes with a session.CorruptError.
// Whoever has the session's log can write both anew.
var ErrTorn = errors.New("torn pair")

// Encode returns the text of session.json and pattern_state.json. Where there is an
// extension, the first carries the hash of the second.
func (s State) Encode() (sessionJSON, patternJSON []byte, err error) {
	patternJSON, err = encodeASCII(s.Pattern)
	if err != nil {
		return nil, nil, fmt.Errorf("encode pattern state: %w", err)
	}
	if s.Holdfast != nil {
		e := *s.Holdfast
		e.PatternSHA256 = spec.Hash(patternJSON)
		s.Holdfast = &e
	}
	raw, err := s.fields().encode(s.Extra)
	if err != nil {
		return nil, nil, fmt.Errorf("encode session state: %w", err)
	}
	sessionJSON, err = encodeASCII(json.RawMessage(raw))
	return sessionJSON, patternJSON, err
}

func (s *State) fields() fields {
	return fields{
		{"session_type", both{&noAgent{}, json.RawMessage("null")}, omitNull},
		{"metadata", &s.Metadata, required},
		{"variables", &s.Variables, optional},
		{"runtime_config", &s.RuntimeConfig, optional},
		{"token_usage", &s.TokenUsage, optional},
		{"artifacts_written", both{&s.ArtifactsWritten, append([]string{}, s.ArtifactsWritten...)}, optional},
		{"holdfast", &s.Holdfast, omitNull},
	}
}

// noAgent refuses the key session_type, which a workflow's session has not.
type noAgent struct{}

// UnmarshalJSON refuses whatever it gets.
func (noAgent) UnmarshalJSON([]byte) error {
	return &session.InvalidError{Field: "value", Reason: "says that this is one agent's session, not a workflow's"}
}

// DecodeState reads session.json and pattern_state.json. What cannot be used is
// a session.CorruptError that names the file, or ErrTorn as well; a newer
// format of ours is a session.NewerFormatError.
func DecodeState(sessionJSON, patternJSON []byte) (State, error) {
	s, err := decodeSession(sessionJSON)
	if err != nil {
		return State{}, err
	}
	id := s.Metadata.SessionID
	if s.Holdfast != nil && s.Holdfast.PatternSHA256 != spec.Hash(patternJSON) {
		return State{}, fmt.Errorf("%w: %w", ErrTorn, &session.CorruptError{
			ID: id, Path: patternFile, Reason: "was not written together with " + sessionFile,
		})
	}
	if err := decode(patternJSON, &s.Pattern); err != nil {
		return State{}, corruptError(id, patternFile, err)
	}
	return s, nil
}

// decodeSession reads session.json alone.
func decodeSession(data []byte) (State, error) {
	var s State
	raw, err := compactFile(data)
	if err != nil {
		return State{}, corruptError("", sessionFile, err)
	}
	if err := s.fields().decode(raw, &s.Extra); err != nil {
		return State{}, corruptError(s.Metadata.SessionID, sessionFile, err)
	}
	if len(s.ArtifactsWritten) == 0 {
		s.ArtifactsWritten = nil
	}
	return s, nil
}

// decode reads a file that holds one JSON object.
func decode(data []byte, into any) error {
	raw, err := compactFile(data)
	if err != nil {
		return err
	}
	if raw[0] != '{' {
		return &session.InvalidError{Field: "value", Reason: "is not a JSON object"}
	}
	return json.Unmarshal(raw, into)
}

// compactFile brings the JSON of a file into one form, so that equal values are equal bytes.
func compactFile(data []byte) (json.RawMessage, error) {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, &session.InvalidError{Field: "value", Reason: "is empty"}
	case !utf8.Valid(data):
		return nil, &session.InvalidError{Field: "value", Reason: "is not valid UTF-8"}
	}
	return session.CompactJSON("value", data)
}

// corruptError names the file whose content cannot be used. A newer format stays one.
func corruptError(id, path string, err error) error {
	if errors.Is(err, session.ErrNewerFormat) {
		return fmt.Errorf("%s: %w", path, err)
	}
	reason := err.Error()
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		reason = invalid.Field + " " + invalid.Reason
	}
	return &session.CorruptError{ID: id, Path: path, Reason: reason}
}
