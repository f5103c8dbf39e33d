package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// problem is what a server says is wrong.
type problem struct {
	message string
	kind    string // type: invalid_request_error, overloaded_error …
	code    string // model_not_found, insufficient_quota, 429 …
	param   string
}

// explain reads the shapes in which servers tell what is wrong: an object
// under "error", a string there, the fields bare, or a list of such.
func explain(body []byte) problem {
	raw := bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\ufeff"))
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		raw = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(raw, &outer) != nil {
		return problem{message: textOf(raw)}
	}
	fields := outer
	if inner, ok := outer["error"]; ok {
		fields = nil
		if json.Unmarshal(inner, &fields) != nil {
			return problem{message: wordOf(inner), code: wordOf(outer["code"]), kind: wordOf(outer["type"])}
		}
	}
	p := problem{
		message: wordOf(fields["message"]), kind: wordOf(fields["type"]), code: wordOf(fields["code"]), param: wordOf(fields["param"]),
	}
	if p.message == "" {
		p.message = wordOf(fields["detail"])
	}
	return p
}

// wordOf is a JSON value as a person would write it.
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

// textOf is what plain text or a web page says.
func textOf(raw []byte) string {
	if len(raw) == 0 || raw[0] == '<' {
		return ""
	}
	return string(raw)
}

// word is the more telling one of code and type.
func (p problem) word() string {
	if p.code != "" {
		return p.code
	}
	return p.kind
}

func (p problem) says(words ...string) bool {
	return slices.Contains(words, p.kind) || slices.Contains(words, p.code)
}

// passes reports a problem that is the server's and may be over soon.
func (p problem) passes() bool {
	return p.says("overloaded_error", "rate_limit_error", "api_error", "timeout_error", "server_error", "internal_error",
		"rate_limit_exceeded", "overloaded", "timeout", "service_unavailable", "internal_server_error")
}

// final reports a problem that time does not mend, whatever its status: the
// money is used up.
func (p problem) final() bool {
	return p.says("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error", "access_terminated")
}

var tooLong = regexp.MustCompile(`(?i)prompt is too long|maximum context length|exceeds? the (model's )?(maximum )?context|context window|context size`)

// tooLong reports a request that does not fit the model.
func (p problem) tooLong() bool {
	return p.says("context_length_exceeded", "exceed_context_size_error") || tooLong.MatchString(p.message)
}

var titlePattern = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// titled is the title of a web page, as the end of a sentence.
func (c *Client) titled(page []byte) string {
	found := titlePattern.FindSubmatch(page)
	if len(found) < 2 {
		return ""
	}
	return fmt.Sprintf(": %q", c.clean(html.UnescapeString(string(found[1])), 100))
}

// short is a text from outside as it may stand in an error: one line of valid
// UTF-8 and no more than most characters.
func short(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "…"
}
