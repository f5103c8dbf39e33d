package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// From turns decoded YAML or JSON into a Value. It takes nil, booleans, Go's
// integers and floats, json.Number, *big.Int, strings, []any, []string,
// map[string]any, yaml.MapSlice and Values themselves, nested at will.
//
// A Go map has no order, so its keys are sorted; where the order of the text
// matters decode YAML into yaml.MapSlice (yaml.UseOrderedMap) and JSON with
// ParseJSON. Bytes that are not UTF-8 become U+FFFD. Anything else, and
// nesting beyond a few hundred levels, is an error.
func From(v any) (Value, error) { return from(v, 0) }

func from(v any, depth int) (Value, error) {
	if depth > maxDepth {
		return nil, failf(KindLimit, "values nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return None{}, nil
	case Value:
		return v, nil
	case bool:
		return Bool(v), nil
	case string:
		return Str(strings.ToValidUTF8(v, "\uFFFD")), nil
	case float32:
		return Float(v), nil
	case float64:
		return Float(v), nil
	case json.Number:
		return fromNumber(string(v))
	case []any:
		return fromList(v, depth)
	case []string:
		return fromList(v, depth)
	case map[string]any:
		d := &Dict{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := fromPair(d, key, v[key], depth); err != nil {
				return nil, err
			}
		}
		return d, nil
	case yaml.MapSlice:
		d := &Dict{}
		for _, item := range v {
			if err := fromPair(d, item.Key, item.Value, depth); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	return fromInteger(v)
}

func fromInteger(v any) (Value, error) {
	switch v := v.(type) {
	case int:
		return Int(v), nil
	case int8:
		return Int(v), nil
	case int16:
		return Int(v), nil
	case int32:
		return Int(v), nil
	case int64:
		return Int(v), nil
	case uint:
		return wholeNumber(new(big.Int).SetUint64(uint64(v)))
	case uint8:
		return Int(v), nil
	case uint16:
		return Int(v), nil
	case uint32:
		return Int(v), nil
	case uint64:
		return wholeNumber(new(big.Int).SetUint64(v))
	case *big.Int:
		return wholeNumber(v)
	}
	return nil, valueErrorf("a %T is not a value of templates", v)
}

func fromList[T any](items []T, depth int) (Value, error) {
	list := make(List, len(items))
	for i, item := range items {
		v, err := from(item, depth+1)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

func fromPair(d *Dict, key, value any, depth int) error {
	k, err := from(key, depth+1)
	if err != nil {
		return err
	}
	v, err := from(value, depth+1)
	if err != nil {
		return err
	}
	return d.setValue(k, v)
}

// fromNumber reads a JSON number the way Python does: with a point or an
// exponent it is a float, else an integer of any size.
func fromNumber(text string) (Value, error) {
	if strings.ContainsAny(text, ".eE") {
		return parseFloat(text)
	}
	if len(text) > maxIntBits {
		return nil, tooLarge()
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, valueErrorf("%q is not a number", text)
	}
	return wholeNumber(n)
}

// ParseJSON decodes one JSON text, keeping the order of keys and the
// difference between 1 and 1.0. The last of equal keys wins, in the place of
// the first.
func ParseJSON(data []byte) (Value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decodeJSON(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("parse JSON value: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("parse JSON value: text after the value")
	}
	return v, nil
}

func decodeJSON(dec *json.Decoder, depth int) (Value, error) {
	if depth > maxDepth {
		return nil, failf(KindLimit, "values nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := List{}
		for dec.More() {
			item, err := decodeJSON(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err := dec.Token()
		return list, err
	case json.Delim('{'):
		d := &Dict{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := decodeJSON(dec, depth+1)
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			d.Set(name, value)
		}
		_, err := dec.Token()
		return d, err
	}
	return from(token, depth)
}
