package strands

import (
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
	Usage         Dict[AgentUsage]
	Extra         Object
}

// AgentUsage is what one agent has used. Estimated counts were not reported by
// the provider.
type AgentUsage struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Calls     int64 `json:"calls"`
	Estimated bool  `json:"estimated"`
}

// MarshalJSON writes the object holdfast of session.json.
func (e Extension) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("format", extensionFormat)
	w.put("version", e.Version)
	w.put("spec_path", e.SpecPath)
	w.put("pattern_sha256", e.PatternSHA256)
	w.put("usage", e.Usage)
	return w.end(e.Extra)
}

// UnmarshalJSON reads the object holdfast of session.json and refuses a newer
// format.
func (e *Extension) UnmarshalJSON(data []byte) error {
	*e = Extension{}
	r := read(data)
	var format int64
	r.need("format", &format)
	if r.err == nil && format > extensionFormat {
		return &session.NewerFormatError{What: "strands directory format", Have: strconv.FormatInt(format, 10), Know: strconv.Itoa(extensionFormat)}
	}
	r.check("format", format == extensionFormat, "is not a format there ever was")
	r.maybe("version", &e.Version)
	r.maybe("spec_path", &e.SpecPath)
	r.need("pattern_sha256", &e.PatternSHA256)
	r.maybe("usage", &e.Usage)
	var err error
	e.Extra, err = r.rest()
	return err
}
