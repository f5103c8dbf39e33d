package cli

import (
	"path/filepath"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// newSandboxConfig says what the commands of agents may do. They reach neither
// the store nor the user's settings, wherever these are.
func (p *program) newSandboxConfig() sandbox.Config {
	c := sandbox.Config{Network: p.permissions.network}
	if dir := p.cacheDir(); dir != "" {
		c.Homes = filepath.Join(dir, "home")
	}
	if dir, err := p.dataDir(); err == nil {
		c.Deny = append(c.Deny, dir)
	}
	if dir := p.configDir(); dir != "" {
		c.Deny = append(c.Deny, dir)
	}
	if dir, err := userDir(); err == nil {
		c.Deny = append(c.Deny, dir)
	}
	if url, err := p.storeURL(); err == nil {
		c.Deny = append(c.Deny, url.files()...)
	}
	return c
}

// newEngine returns what decides about tool calls. It is stricter about commands
// where the machine has no sandbox for them.
func newEngine() (permission.Engine, error) {
	return permission.New(permission.Config{Unsandboxed: !sandbox.Probe().Complete()})
}

// warnUnsandboxed says once what the sandbox of commands lacks on this machine.
func (p *program) warnUnsandboxed() {
	if status := sandbox.Probe(); !status.Complete() {
		p.warnEarly("commands have no complete sandbox here, so you are asked more often: %s", status)
	}
}
