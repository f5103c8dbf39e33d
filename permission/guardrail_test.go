package permission_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

func TestGuardrails_holdWhateverIsAllowed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"rm -rf /", "rm -fr /", "rm -r -f /", "rm --recursive --force /", "rm -Rf /", "rm -rf -- /", "rm -rf /*", "rm -rf //", "rm -rf /.", "rm -rf /./",
		"rm -rf ~", "rm -rf ~/", "rm -rf ~/*", "rm -rf $HOME", `rm -rf "$HOME"`, "rm -rf ${HOME}/", "rm -rf $HOME/*", "rm -rf *", "rm -rf ./*", "rm -rf build /",
		`"rm" -rf /`, `r\m -rf /`, `rm -rf '/'`, "rm / -rf", "/bin/rm -rf /", "rm -rf {/,x}", "$'rm' -rf /",
		"sudo rm -rf /", "sudo -u root rm -rf /", "env A=1 rm -rf /", "nohup rm -rf / &", "time rm -rf /", "nice -n 3 rm -rf /", "command rm -rf /",
		"exec rm -rf /", "echo / | xargs rm -rf /", "sh -c 'rm -rf /'", `bash -lc "cd x && rm -rf ~"`, "ls; rm -rf /", "ls && rm -rf / || true", "ls $(rm -rf /)",
		"echo `rm -rf /`", "if true; then rm -rf /; fi", "bash <<< 'rm -rf /'", "bash <<EOF\nrm -rf /\nEOF", `rm -rf / "`, "eval rm -rf /", "find / -delete", "find ~ -name x -delete",
		"mkfs /dev/sda1", "mkfs.ext4 /dev/sda1", "sudo /sbin/mkfs.xfs -f /dev/sdb",
		"dd if=/dev/zero of=/dev/sda", "dd of=/dev/nvme0n1 if=x bs=1M", "cat x > /dev/sda", "echo x >/dev/vda1", "echo x | tee /dev/sda", "cp image /dev/sdb", "shred /dev/sda",
		":(){ :|:& };:", ": ( ) { : | : & } ; :", "bomb() { bomb | bomb & }; bomb", "f() { ls; f | f; }; f",
		"shutdown -h now", "reboot", "sudo reboot", "/sbin/poweroff", "halt", "systemctl reboot", "init 0", "ls\nreboot", "bash <<EOF\nreboot\nEOF", "sh <<< reboot", "ls; reboot; \"", "echo hi; shutdown now",
	} {
		q := granted(in("bypass_permissions", under(command(line), rule("allow", tool("run_command")))), permission.BundleKey, fresh)
		expect(t, []decision{{line, q, "deny", "guardrail"}})
	}
}

func TestGuardrails_leaveTheRestAlone(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"rm -rf build", "rm -rf /tmp/x", "rm -rf ./build/*", "rm -rf  build", "rm -rf ~/project/out", "rm -rf $HOME/x", "rm file", "rm *", "rm -f *", "rm -i /",
		"echo rm", "rm -rf build/ dist", "ls /", "find . -delete", "find / -name x", "git rm -r x", "echo '-rf /'",
		"man mkfs", "grep reboot log", "git commit -m 'reboot later'", "cat shutdown.md", "cat > a.md <<EOF\nreboot\nmkfs x\nEOF", "ls ~", "dd if=a of=b", "echo x > /dev/null", "echo x > /dev/stderr",
		"cat /dev/sda", "tee /dev/tty", "f() { ls | cat; }; f", "systemctl status x", "systemctl start poweroffd",
	} {
		if got := evaluate(in("bypass_permissions", command(line))); got.Decision != "allow" {
			t.Errorf("%q: %s because of %s (%s)", line, got.Decision, got.Reason.Type, got.Reason.Summary)
		}
	}
}

func TestGuardrails_canBeAdded(t *testing.T) {
	t.Parallel()
	engine, err := permission.New(permission.Config{Guardrails: []string{`^kubectl delete`, `--force\b`}})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"kubectl delete pod x":             "deny",
		"ls; kubectl   delete pod x":       "deny",
		"sudo kubectl 'delete' pod":        "deny",
		"echo $(kubectl delete x)":         "deny",
		"git push --force":                 "deny",
		"echo 'kubectl get; --force is x'": "deny", // on the raw line
		"kubectl get pods":                 "allow",
		"echo kubectl delete":              "allow",
		"rm -rf /":                         "deny", // the built-in ones stay
	} {
		q := in("bypass_permissions", under(command(line), rule("allow", tool("run_command"))))
		if got := engine.Evaluate(q); got.Decision != want || want == "deny" && got.Reason.Type != "guardrail" {
			t.Errorf("%q: %s because of %s", line, got.Decision, got.Reason.Type)
		}
	}
}

func TestSafeList_onlyLooks(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"pwd", "ls", "ls -la src", "ls /w/src", "ls *.go", "tree -L 2", "cat a.txt", "cat ./a/../b", "head -n 5 a", "tail -f log", "grep -rn TODO .", "rg TODO src",
		"find . -name '*.go' -type f", "find src -newer a", "sed -n 1,20p a", "sed -n '$p' a", "sed -n p a",
		"git status", "git status -s", "git diff HEAD~1..HEAD -- a", "git log --oneline -5", "git show HEAD", "git rev-parse HEAD", "git ls-files",
		"node --version", "wc -l a", "sort -r a", "uniq -c a", "diff -u a b", "echo done", "find . ! -name x", "ls | grep x | head -3", "git status && git diff", "ls; pwd", "grep x a 2>/dev/null",
	} {
		expect(t, []decision{{line, in("dangerous_only", command(line)), "allow", "mode"}})
	}
	for _, line := range []string{
		"cat /etc/passwd", "cat ../secret", "cat a/../../x", "ls ~", "cat ~/.ssh/id_rsa", "cat $HOME/x", "ls /w2", "grep -f/etc/passwd x", "grep --file=/etc/passwd x", "grep --file=../x y",
		"find . -delete", "find . -exec rm {} \\;", "find . -execdir x ;", "find . -ok x ;", "find . -fprintf x y", "find *", "find -files0-from=x", "find / -name x",
		"sed -i s/a/b/ x", "sed -n 1w/tmp/x a", "sed -n 's/a/b/w x' a", "sed -n '1e id' a", "sed -n 1p a -i", "sed -n -f x a", "sed -n", "sed 1p a",
		"git push", "git diff --output=x", "git diff --outpu=x", "git log --ext-diff", "git diff --no-index a b", "git -c a=b status", "git -C / status", "git statusx", "git log *",
		"tree -o x", "tree -ao x", "rg --pre=x y", "rg --pre x y", "rg *", "go test -exec x", "go test -toolexec=x ./...", "go test -o x", "go build ./...", "go vet -vettool=x",
		"go test ./...", "go vet ./...", "npm test", "npm run lint", "pytest -q tests", "cargo test", "make test", "eslint src", "go version", "yarn --version",
		"sort -o x a", "sort --compress-program=x a", "uniq a b", "wc --files0-from=x", "date -s now", "file -C", "cat .?/x", "head .*/x", "grep -r X .?", "ls .[.]",
		"npm test -- --x", "npm run build", "npm install", "pytest -p x", "pytest --basetemp=x", "eslint --fix src", "make install", "make test install", "python x.py", "tsc", "go version x",
		"ls > x", "ls $(id)", "X=1 ls", "ls; make", "ls | sh", "sudo ls", "/bin/ls", "env ls", "time ls", "$X", "ls `id`", "bash -c ls", "awk 1 x", "xargs ls", "cd / && ls",
	} {
		expect(t, []decision{{line, in("dangerous_only", command(line)), "ask", "mode"}})
	}
	remote := in("dangerous_only", command("ls"))
	remote.Server = "ssh"
	extern := in("dangerous_only", command("ls"))
	extern.Effects |= tools.External
	elsewhere := in("dangerous_only", command("ls"))
	elsewhere.Path, elsewhere.ResolvedPath = "/etc", "/etc"
	rootless := in("dangerous_only", command("cat /w/a"))
	rootless.Workspace.Root = ""
	undeclared := in("dangerous_only", command("ls"))
	undeclared.Effects = tools.Read
	deeper := in("dangerous_only", on(command("cat ../a"), "/w/sub"))
	tooDeep := in("dangerous_only", on(command("cat ../../a"), "/w/sub"))
	expect(t, []decision{
		{"on a server", remote, "ask", ""},
		{"in a foreign service", extern, "ask", ""},
		{"from a folder outside", elsewhere, "ask", "outside_workspace"},
		{"without a root", rootless, "ask", ""},
		{"by a tool that declares no shell", undeclared, "ask", ""},
		{"from a folder inside", deeper, "allow", ""},
		{"out of a folder inside", tooDeep, "ask", ""},
		{"a rule asks", under(in("dangerous_only", command("ls")), rule("ask", prefix("ls"))), "ask", "rule"},
	})
	if got := evaluate(in(session.PermissionDangerousOnly, command("ls; make"))); got.Reason.Type != "mode" {
		t.Errorf("the strictest part decides, not %v", got.Reason)
	}
}
