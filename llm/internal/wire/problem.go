package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// problem is a server's description of an error.
type problem struct {
	message string
	kind    string // type: invalid_request_error, overloaded_error …
	code    string // model_not_found, insufficient_quota, 429 …
	param   string
}

// readProblem reads the formats in which servers describe errors: an object or
// a string under "error", the fields at the top level, or a list of these.
func readProblem(body []byte) problem {
	raw := bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\ufeff"))
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		raw = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(raw, &outer) != nil {
		if bytes.HasPrefix(raw, []byte{'<'}) { // a web page: pageTitle reads it
			raw = nil
		}
		return problem{message: string(raw)}
	}
	fields := outer
	if inner, ok := outer["error"]; ok {
		fields = nil
		if json.Unmarshal(inner, &fields) != nil {
			return problem{message: wordOf(inner), code: wordOf(outer["code"]), kind: wordOf(outer["type"])}
		}
	}
	return problem{
		message: cmp.Or(wordOf(fields["message"]), wordOf(fields["detail"])),
		kind:    wordOf(fields["type"]), code: wordOf(fields["code"]), param: wordOf(fields["param"]),
	}
}

// wordOf returns the text of a JSON string, and other values as they are.
func wordOf(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &text) == nil:
		return text
	}
	return string(raw)
}

// name returns the code, or the type if there is no code.
func (p problem) name() string { return cmp.Or(p.code, p.kind) }

func (p problem) is(words ...string) bool {
	return slices.Contains(words, p.kind) || slices.Contains(words, p.code)
}

// isTransient reports a problem of the server that may end soon.
func (p problem) isTransient() bool {
	return p.is("overloaded_error", "rate_limit_error", "api_error", "timeout_error", "server_error", "internal_error",
		"rate_limit_exceeded", "overloaded", "timeout", "service_unavailable", "internal_server_error")
}

// isFinal reports a problem that a retry does not solve, whatever its status: no
// money left.
func (p problem) isFinal() bool {
	return p.is("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error", "access_terminated")
}

var tooLong = regexp.MustCompile(`(?i)prompt is too long|maximum context length|exceeds? the (model's )?(maximum )?context|context window|context size`)

// tooLong reports a request that exceeds the model's context.
func (p problem) tooLong() bool {
	return p.is("context_length_exceeded", "exceed_context_size_error") || tooLong.MatchString(p.message)
}

var titlePattern = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// pageTitle returns the title of a web page as the end of a sentence.
func (c *Client) pageTitle(page []byte) string {
	found := titlePattern.FindSubmatch(page)
	if len(found) < 2 {
		return ""
	}
	return fmt.Sprintf(": %q", c.clean(html.UnescapeString(string(found[1])), 100))
}

// oneLine makes one line of valid UTF-8 with at most most characters.
func oneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "…"
}
