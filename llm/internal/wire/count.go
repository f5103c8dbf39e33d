package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// maxCount is more than any request has.
const maxCount = 1e9

// Count is a number of tokens that a server reports. Impossible values (negative,
// absurd, not a number) become 0.
type Count int64

// UnmarshalJSON takes any JSON value and never fails.
func (c *Count) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil // like a missing field
	}
	*c = 0
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err == nil && f > 0 && f <= maxCount {
		*c = Count(math.Round(f))
	}
	return nil
}

// Of returns the count, at most whole.
func (c Count) Of(whole Count) int64 { return int64(min(c, whole)) }

// String is a string field that a server may leave out, set to null or fill with
// something else.
type String string

// UnmarshalJSON takes any JSON value and never fails.
func (w *String) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = ""
	}
	*w = String(text)
	return nil
}
