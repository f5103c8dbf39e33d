package strands

import (
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/internal/pyjson"
	"github.com/holdfast-dev/holdfast/session"
)

// encodeASCII encodes a value as the program writes session.json: json.dumps(indent=2),
// which leaves nothing but ASCII.
func encodeASCII(value any) ([]byte, error) { return dumps(value, true) }

// encodeUTF8 encodes a value as the agents' SDK writes its files: json.dumps(indent=2,
// ensure_ascii=False).
func encodeUTF8(value any) ([]byte, error) { return dumps(value, false) }

func dumps(value any, ascii bool) ([]byte, error) {
	raw, err := session.JSON(value)
	if err == nil {
		raw, err = session.CompactJSON("value", raw)
	}
	if err != nil {
		return nil, err
	}
	return pyjson.Print(raw, "  ", ascii), nil
}

// float is a number that Python shows as a float, also when it is whole.
type float float64

// MarshalJSON writes 1.0 for 1.
func (f float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return nil, fmt.Errorf("%v is no JSON number", float64(f))
	}
	return []byte(pyjson.Float(float64(f))), nil
}
