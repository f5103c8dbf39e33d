package strands

import (
	"encoding/json"
	"strconv"

	"github.com/holdfast-dev/holdfast/session"
)

// extensionFormat is the newest form of the key "holdfast" that is understood.
const extensionFormat = 1

// Extension is the key "holdfast" of session.json: what Holdfast knows of a
// run that the layout has no place for. The other program ignores it, and drops
// it when it saves.
type Extension struct {
	Version       int64  // of the session, when the files were written
	SpecPath      string // absolute
	PatternSHA256 string // of pattern_state.json; set by Encode
	Usage         Dict[session.AgentUse]
	Extra         Object
}

// formatNumber is the key format. It refuses a newer one.
type formatNumber struct{}

// MarshalJSON writes the format that is understood.
func (formatNumber) MarshalJSON() ([]byte, error) { return json.Marshal(extensionFormat) }

// UnmarshalJSON refuses a format that is not understood.
func (formatNumber) UnmarshalJSON(data []byte) error {
	var number int64
	if err := json.Unmarshal(data, &number); err != nil {
		return err
	}
	switch {
	case number > extensionFormat:
		return &session.NewerFormatError{What: "strands directory format", Have: strconv.FormatInt(number, 10), Know: strconv.Itoa(extensionFormat)}
	case number != extensionFormat:
		return &session.InvalidError{Field: "value", Reason: "is not a format there ever was"}
	}
	return nil
}

func (e *Extension) fields() fields {
	return fields{
		{"format", &formatNumber{}, required},
		{"version", &e.Version, optional},
		{"spec_path", &e.SpecPath, optional},
		{"pattern_sha256", &e.PatternSHA256, required},
		{"usage", &e.Usage, optional},
	}
}

// MarshalJSON writes the object holdfast of session.json.
func (e Extension) MarshalJSON() ([]byte, error) { return e.fields().encode(e.Extra) }

// UnmarshalJSON reads the object holdfast of session.json.
func (e *Extension) UnmarshalJSON(data []byte) error {
	*e = Extension{}
	return e.fields().decode(data, &e.Extra)
}
