package provtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type object = map[string]any

var (
	goodName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	dataHead = regexp.MustCompile(`^data:[a-z]+/[a-zA-Z0-9.+-]+$`)
)

// bad refuses an invalid request.
func bad(param, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", param: param, message: fmt.Sprintf(format, args...)}
}

// decodeBody decodes the request, or refuses it.
func decodeBody(r Request) (object, *refusal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, bad("", "the content type is %q", r.Header.Get("Content-Type"))
	}
	var body object
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, bad("", "we could not parse the JSON body of your request: %v", err)
	}
	return body, nil
}

// onlyKnown refuses unknown fields.
func onlyKnown(body object, known []string) *refusal {
	for key := range body {
		if !slices.Contains(known, key) {
			no := bad(key, "Unrecognized request argument supplied: %s", key)
			no.code = "unknown_parameter"
			return no
		}
	}
	return nil
}

// positive refuses anything but a positive integer. A missing field passes.
func positive(body object, field string) *refusal {
	v, there := body[field]
	if !there {
		return nil
	}
	if n, ok := v.(float64); !ok || n < 1 || n != math.Trunc(n) {
		return bad(field, "%s: expected an integer of at least 1, got %v", field, v)
	}
	return nil
}

// upTo refuses a number below 0 or above most. A missing field passes.
func upTo(body object, field string, most float64) *refusal {
	v, there := body[field]
	if n, ok := v.(float64); there && (!ok || n < 0 || n > most) {
		return bad(field, "%s: expected a number from 0 to %v, got %v", field, most, v)
	}
	return nil
}

// list reads a list of objects; ok is false for anything else.
func list(v any) (items []object, ok bool) {
	raw, ok := v.([]any)
	if !ok {
		return nil, false
	}
	for _, one := range raw {
		item, ok := one.(object)
		if !ok {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

func str(v any) string {
	s, _ := v.(string) // what is no string is as good as none
	return s
}

// goodSchema reports whether v is a JSON Schema of an object.
func goodSchema(v any) bool {
	schema, ok := v.(object)
	return ok && schema["type"] == "object"
}

func goodBase64(v any) bool {
	decoded, err := base64.StdEncoding.DecodeString(str(v))
	return err == nil && len(decoded) > 0
}

func goodDataURL(s string) bool {
	head, data, ok := strings.Cut(s, ";base64,")
	return ok && dataHead.MatchString(head) && goodBase64(data)
}

func goodLink(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// firstRefusal returns the first refusal, if any.
func firstRefusal(all ...*refusal) *refusal {
	for _, no := range all {
		if no != nil {
			return no
		}
	}
	return nil
}
