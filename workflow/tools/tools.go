// Package tools has the tools that the agents of a workflow spec may call: the
// native ones, the web services of the spec and its skills. The caller adds the
// tools of tool servers. The work itself is done by the packages below tool;
// here are the names, arguments and results that specs rely on.
//
// A failure is a result that says what went wrong, never an error of Go; only
// a cancelled context is. Most results are text. Those of web_fetch,
// tavily_search, spec_verify and of web services are one value of compact JSON.
package tools

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/egress"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Config configures the tools. Spec is required, and Snapshot if the spec has
// skills: their texts come only from its copies.
type Config struct {
	Spec     *spec.Spec
	Snapshot *spec.Snapshot

	// WorkDir is where relative paths start; "" is the current directory. The
	// tools reach files in it and in AllowPaths, and no others.
	WorkDir    string
	AllowPaths []string

	HTTP  HTTP
	NoWeb bool // no tool of the box uses the web

	Getenv    func(name string) string // nil: nothing is set
	Providers []string                 // of models that are served whatever the environment says; for spec_verify
	Now       func() time.Time         // nil: the system's
	Warn      func(text string)        // nil: warnings are dropped; called from several goroutines
}

// HTTP changes which addresses can be reached. Without it these are all public
// ones.
type HTTP struct {
	// AllowPrivate lists host:port that may be reached wherever they are.
	AllowPrivate []string

	// AllowedDomains and BlockedPatterns are regular expressions; the case of
	// letters does not matter. With AllowedDomains one of them must fit: one
	// with :// in it the beginning of a URL, any other the whole host.
	// BlockedPatterns are looked for anywhere in the host or the URL, and win.
	AllowedDomains, BlockedPatterns []string
}

// Box has the tools of one run. It needs no closing and is safe for concurrent
// use.
type Box struct {
	config    Config
	native    map[string]tool.Tool
	executors []executor
	folders   folders
	client    *egress.Client
	skills    map[string][]byte // their texts, by path from the spec's folder
	loaded    func(skillID string) bool
	warned    *sync.Map // warnings that were given
}

// New makes the tools of a spec. A Config that cannot be used is an
// InvalidError.
func New(c Config) (*Box, error) {
	if c.Spec == nil {
		return nil, &session.InvalidError{Field: "Config.Spec", Reason: "is missing"}
	}
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	b := &Box{config: c, warned: &sync.Map{}}
	var err error
	if b.folders, err = newFolders(c.WorkDir, c.AllowPaths); err != nil {
		return nil, err
	}
	lists, err := c.HTTP.compile()
	if err != nil {
		return nil, err
	}
	if b.client, err = egress.New(egress.Config{Private: c.HTTP.AllowPrivate, Check: lists.check}); err != nil {
		return nil, err
	}
	if err := b.copySkills(); err != nil {
		return nil, err
	}
	if err := b.makeNative(); err != nil {
		return nil, err
	}
	if err := b.makeExecutors(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Box) makeNative() error {
	b.native = map[string]tool.Tool{}
	for _, newTool := range []func() (tool.Tool, error){
		b.calculatorTool, b.timeTool,
		b.readTool, b.writeTool, b.grepTool, b.searchTool, b.headTool, b.tailTool,
		b.requestTool, b.fetchTool, b.tavilyTool, b.verifyTool,
	} {
		t, err := newTool()
		if err != nil {
			return err
		}
		b.native[t.Spec().Name] = t
	}
	return nil
}

// For returns the tools of a unit. If listed is true, these are the native tools
// and web services in names; otherwise those of the spec, and then those in
// names. If the spec has skills, every unit has Skill. Unknown names and what
// the guardrails forbid are left out.
func (b *Box) For(names []string, listed bool) []tool.Tool {
	if !listed {
		all := slices.Clone(b.config.Spec.Tools.Python)
		for _, e := range b.executors {
			all = append(all, e.ID)
		}
		names = append(all, names...)
	}
	var found []tool.Tool
	has := map[string]bool{}
	add := func(t tool.Tool) {
		if name := t.Spec().Name; !has[name] {
			has[name] = true
			found = append(found, t)
		}
	}
	for _, name := range names {
		if t, ok := b.find(name); ok {
			add(t)
		}
	}
	if len(b.config.Spec.Skills) > 0 && b.allows(skillName) {
		if t, err := b.skillTool(); err == nil { // New has checked that there is none
			add(t)
		}
	}
	return found
}

// find returns a tool by its name in a spec, if the guardrails allow it.
func (b *Box) find(name string) (tool.Tool, bool) {
	for _, e := range b.executors {
		if e.ID == name {
			return e.tool, !b.offline() && !b.config.NoWeb && b.allows(name)
		}
	}
	short := spec.NativeTool(name)
	if (b.offline() || b.config.NoWeb) && slices.Contains([]string{"http_request", "web_fetch", "tavily_search"}, short) {
		return nil, false
	}
	t, ok := b.native[short]
	return t, ok && b.allows(short)
}

// FromServer returns the tools of a tool server that the guardrails allow. A
// list of allowed tools may name the server, or a tool with or without the
// server's id before it.
func (b *Box) FromServer(id string, tools []tool.Tool) []tool.Tool {
	if b.offline() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t tool.Tool) bool {
		name := t.Spec().Name
		_, short, _ := strings.Cut(name, "__")
		return !b.allows(id) && !b.allows(name) && (short == "" || !b.allows(short))
	})
}

func (b *Box) offline() bool {
	g := b.config.Spec.Security.Guardrails
	return g != nil && g.DenyNetwork
}

func (b *Box) allows(name string) bool {
	g := b.config.Spec.Security.Guardrails
	return g == nil || g.AllowTools == nil ||
		slices.ContainsFunc(g.AllowTools, func(allowed string) bool { return spec.NativeTool(allowed) == name })
}

// warnOnce gives a warning the first time only.
func (b *Box) warnOnce(text string) {
	if _, said := b.warned.LoadOrStore(text, true); !said {
		b.config.Warn(text)
	}
}

// parseURL reads a URL as a model wrote it.
func parseURL(field, written string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(written))
	if err != nil || written == "" {
		return nil, &session.InvalidError{Field: field, Reason: "is not a URL"}
	}
	return u, nil
}

// displayPath returns a path as results show it, the same on every system.
func displayPath(path string) string { return filepath.ToSlash(path) }
