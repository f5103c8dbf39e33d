package permission

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Taints reports a call whose result may contain a secret, or the text of a
// stranger who wants one: from then on the agent may be led to send data out.
func (q Request) Taints() bool {
	if q.Effects.Has(tool.Network | tool.Export | tool.External | tool.Browser | tool.MCP) {
		return true
	}
	if q.Effects.Has(tool.Shell) || q.Command != "" {
		l := readLine(q.Command)
		return l.opaque != "" || slices.ContainsFunc(l.commands, mayReadSecret)
	}
	return q.Deep || q.Effects.Has(tool.Read) && (secret(q.Path) || secret(q.ResolvedPath))
}

// mayReadSecret reports a command that names a secret, or reads what it does not
// name.
func mayReadSecret(c command) bool {
	p, understood := c.understood()
	deep := p.deep || c[0].text == "grep" && recursive(c[1:])
	return !understood || deep || slices.ContainsFunc(c, func(w word) bool {
		return w.glob || slices.ContainsFunc(pathsIn(w.text), secret)
	})
}

var (
	secretNames  = strings.Fields("credentials credentials.json secrets.json secrets.yml secrets.yaml .netrc .pgpass .npmrc .pypirc .htpasswd .git-credentials id_rsa id_dsa id_ecdsa id_ed25519 service-account.json token tokens shadow")
	secretEnds   = strings.Fields(".pem .key .p12 .pfx .jks .keystore .kdbx .asc .ppk .tfstate .tfvars")
	secretPlaces = strings.Fields(".ssh .gnupg .aws .azure .kube .docker secrets .secrets credentials")
)

// secret reports a path that looks like one of a secret.
func secret(p string) bool {
	parts := strings.Split(strings.ToLower(p), "/")
	name := path.Base(strings.ToLower(p))
	if strings.HasPrefix(name, ".env") || slices.Contains(secretNames, name) {
		return true
	}
	return slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(name, end) }) ||
		slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(secretPlaces, part) })
}

// askIfDataLeaves asks before a tainted session sends a request that could carry
// data. A rule or a grant for the host allows it: a person has named the host.
func (f *facts) askIfDataLeaves(v verdict) verdict {
	if v.decision != session.EffectAllow || !f.q.Tainted || f.mode == session.PermissionBypass || !carriesData(f.q.URL) {
		return v
	}
	if v.reason.Type == ReasonBundleGrant || v.rule != nil && v.rule.Scope.Kind == session.ScopeDomain {
		return v
	}
	return newVerdict(session.EffectAsk, ReasonDataLeaves, session.ReasonDetails{URL: f.q.URL}, textDataLeaves, f.domain)
}

// Limits of an address that says no more than which page it is.
const (
	maxPath    = 100
	maxSegment = 40
	maxLabel   = 20
	maxLabels  = 4
)

// carriesData reports an address with room for data: a query, a fragment, a user,
// a long or encoded path, or a host name of many or long parts.
func carriesData(address string) bool {
	if address == "" {
		return false
	}
	u, err := url.Parse(address)
	if err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil || u.Opaque != "" {
		return true
	}
	p := u.EscapedPath()
	if len(p) > maxPath || strings.Contains(p, "%") || slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return len(s) > maxSegment }) {
		return true
	}
	labels := strings.Split(u.Hostname(), ".")
	return len(labels) > maxLabels || slices.ContainsFunc(labels, func(l string) bool { return len(l) > maxLabel })
}
