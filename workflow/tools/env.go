package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// HTTPFromEnv reads the settings from HOLDFAST_HTTP_ALLOW_PRIVATE,
// HOLDFAST_HTTP_ALLOWED_DOMAINS and HOLDFAST_HTTP_BLOCKED_PATTERNS, or from
// the variables of the same names with STRANDS_ in front. A list is written
// with commas, or as JSON where a comma is part of an element.
func HTTPFromEnv(getenv func(name string) string) (HTTP, error) {
	var h HTTP
	for _, v := range []struct {
		name string
		list *[]string
	}{
		{"HTTP_ALLOW_PRIVATE", &h.AllowPrivate},
		{"HTTP_ALLOWED_DOMAINS", &h.AllowedDomains},
		{"HTTP_BLOCKED_PATTERNS", &h.BlockedPatterns},
	} {
		name := "HOLDFAST_" + v.name
		if getenv(name) == "" {
			name = "STRANDS_" + v.name
		}
		var err error
		if *v.list, err = parseList(getenv(name)); err != nil {
			return HTTP{}, &session.InvalidError{Field: name, Reason: err.Error()}
		}
	}
	_, err := h.compile()
	return h, err
}

func parseList(text string) ([]string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "[") && json.Valid([]byte(text)) {
		var list []string
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, errors.New("is not a list of texts")
		}
		return list, nil
	}
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list, nil
}

// patterns are the compiled lists of an HTTP.
type patterns struct {
	hosts, urls []*regexp.Regexp // allowed
	blocked     []*regexp.Regexp
}

func (h HTTP) compile() (patterns, error) {
	var p patterns
	for _, text := range h.AllowedDomains {
		list, form := &p.hosts, "(?i)^(?:%s)$"
		if strings.Contains(strings.ReplaceAll(text, `\/`, "/"), "://") {
			list, form = &p.urls, "(?i)^(?:%s)"
		}
		if err := compileInto(list, "HTTP.AllowedDomains", text, form); err != nil {
			return p, err
		}
	}
	for _, text := range h.BlockedPatterns {
		if err := compileInto(&p.blocked, "HTTP.BlockedPatterns", text, "(?i)%s"); err != nil {
			return p, err
		}
	}
	return p, nil
}

func compileInto(list *[]*regexp.Regexp, field, text, form string) error {
	// Compile it alone first: a closing parenthesis must not break out of the form.
	if _, err := regexp.Compile(text); err != nil {
		return &session.InvalidError{Field: field, Reason: fmt.Sprintf("%q: %v", text, err)}
	}
	compiled, err := regexp.Compile(fmt.Sprintf(form, text))
	if err != nil {
		return &session.InvalidError{Field: field, Reason: fmt.Sprintf("%q: %v", text, err)}
	}
	*list = append(*list, compiled)
	return nil
}

func (p patterns) check(u *url.URL) error {
	host := strings.TrimSuffix(u.Hostname(), ".")
	fits := func(list []*regexp.Regexp, text string) bool {
		for _, r := range list {
			if r.MatchString(text) {
				return true
			}
		}
		return false
	}
	switch {
	case fits(p.blocked, host) || fits(p.blocked, u.String()):
		return fmt.Errorf("%s is blocked by a pattern", u.Host)
	case len(p.hosts)+len(p.urls) > 0 && !fits(p.hosts, host) && !fits(p.urls, u.String()):
		return fmt.Errorf("%s is not among the domains that are allowed", u.Host)
	}
	return nil
}
