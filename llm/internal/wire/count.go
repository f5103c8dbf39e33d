package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// maxCount is more tokens than any request has.
const maxCount = 1e9

// Count is a number of tokens as a server tells it. What cannot be true
// (negative, absurd, no number) counts as not told.
type Count int64

// UnmarshalJSON takes any JSON value and never fails.
func (c *Count) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil // as if it were not there
	}
	*c = 0
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err == nil && f > 0 && f <= maxCount {
		*c = Count(math.Round(f))
	}
	return nil
}

// Of is the part of a whole, which is no larger than it.
func (c Count) Of(whole Count) int64 { return int64(min(c, whole)) }

// Word is a string field that a server may leave out, set to null or fill with
// something else.
type Word string

// UnmarshalJSON takes any JSON value and never fails.
func (w *Word) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = ""
	}
	*w = Word(text)
	return nil
}
