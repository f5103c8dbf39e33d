package setup

import (
	"path/filepath"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// NewSandboxConfig says what the commands of agents may do. They reach neither
// the store nor the user's settings, wherever these are.
func (p *Setup) NewSandboxConfig() sandbox.Config {
	c := sandbox.Config{Network: p.Permissions.Network}
	if dir := p.cacheDir(); dir != "" {
		c.Homes = filepath.Join(dir, "home")
	}
	if dir, err := p.DataDir(); err == nil {
		c.Deny = append(c.Deny, dir)
	}
	if dir := p.configDir(); dir != "" {
		c.Deny = append(c.Deny, dir)
	}
	if dir, err := UserDir(); err == nil {
		c.Deny = append(c.Deny, dir)
	}
	if url, err := p.storeURL(); err == nil {
		c.Deny = append(c.Deny, url.files()...)
	}
	return c
}

// NewEngine returns what decides about tool calls. It is stricter about commands
// where the machine has no sandbox for them.
func NewEngine() (permission.Engine, error) {
	return permission.New(permission.Config{Unsandboxed: !sandbox.Probe().Complete()})
}

// WarnUnsandboxed says once what the sandbox of commands lacks on this machine.
func (p *Setup) WarnUnsandboxed() {
	if status := sandbox.Probe(); !status.Complete() {
		p.WarnEarly("commands have no complete sandbox here, so you are asked more often: %s", status)
	}
}
