#!/usr/bin/python3
"""Whether device code keeps its arithmetic; prints every breach, or "kept".

    check_device_arithmetic.py hip ARCHITECTURE SOURCE COMPILER FLAG...
    check_device_arithmetic.py ptx SOURCE COMPILER FLAG...

hip: LLVM IR as the front end makes it, before any pass, is looked at. Divisions and roots have not
been expanded yet (their expansions contain fma), so that each fma in it is one of the sources':

  * no instruction may have a fast-math flag, be an fmuladd, or carry !fpmath (a rounding error)
  * no function may flush denormals or have an unsafe floating-point attribute
  * the device libraries are those for correctly rounded roots and kept denormals
  * calls of fmaf stand on the source lines that say fmaf, and each such line has its calls

ptx: every addition, product, quotient, root and fma rounds to nearest (.rn), nothing is
approximate or flushes denormals, and there is no mad.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = re.compile(r"\b(fast|contract|afn|arcp|reassoc|nnan|ninf|nsz)\b")
FLOATING = re.compile(r"= (?:(?:tail |musttail |notail )?call|f(?:add|sub|mul|div|rem|neg|cmp)|phi|select)\b")
ATTRIBUTE = re.compile(r'"([a-z0-9-]*fp-math[a-z0-9-]*)"="([a-z,-]*)"')
LIBRARY_SWITCHES = {
    "__oclc_correctly_rounded_sqrt32": 1,
    "__oclc_daz_opt": 0,
    "__oclc_unsafe_math_opt": 0,
    "__oclc_finite_only_opt": 0,
}
FMA = re.compile(r"@(llvm\.fma\.|__ocml_fma_|_ZL4fmafff)")


def compile_text(command, output):
    """Runs a compiler and returns what it wrote."""
    result = subprocess.run([*command, "-o", output], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"cannot compile: {' '.join(command)}\n{result.stderr}")
    return pathlib.Path(output).read_text(encoding="utf-8", errors="replace")


def instructions(text):
    """(enclosing function, line) of each line of code."""
    function = ""
    for line in text.splitlines():
        if line.startswith("define "):
            function = re.search(r"@([^(]*)\(", line).group(1)
        elif line.startswith("}"):
            function = ""
        elif function:
            yield function, line


def flag_breaches(text):
    for function, line in instructions(text):
        code = line.split(", !")[0]
        flag = FLAGS.search(re.sub(r"@\S+|%\S+", "", code))
        if flag and FLOATING.search(code):
            yield f"{function}: flag {flag.group(1)}: {code.strip()}"
        if "llvm.fmuladd" in code:
            yield f"{function}: may be contracted: {code.strip()}"
        if "!fpmath" in line:
            yield f"{function}: may be inexact: {line.strip()}"


def attribute_breaches(text):
    for name, value in sorted(set(ATTRIBUTE.findall(text))):
        kept = value == "ieee,ieee" if name.startswith("denormal") else value == "false"
        if not kept:
            yield f'attribute "{name}"="{value}"'


def library_breaches(text):
    for name, wanted in LIBRARY_SWITCHES.items():
        for value in re.findall(rf"@{name} = .*constant i8 (\d+)", text):
            if int(value) != wanted:
                yield f"device library: {name} is {value}, wanted {wanted}"


class DebugLines:
    """File and line of `!dbg` locations."""

    def __init__(self, text):
        self.nodes = dict(re.findall(r"^!(\d+) = (.*)$", text, re.MULTILINE))

    def field(self, node, name):
        found = re.search(rf"\b{name}: (?:!(\d+)|(\d+)|\"([^\"]*)\")", self.nodes[node])
        return next(group for group in found.groups() if group is not None)

    def place(self, location):
        scope = self.nodes[self.field(location, "scope")]
        file = re.search(r"\bfile: !(\d+)", scope).group(1)
        return pathlib.Path(self.field(file, "filename")).name, int(self.field(location, "line"))


def fma_breaches(text, kernels):
    """Calls of fmaf against the lines that say so. A wrapper of fmaf itself may use the operation."""
    written = {}
    for file in sorted(kernels.glob("*.h")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            code = line.split("//")[0]
            if "fmaf(" in code:
                written[file.name, number] = code.count("fmaf(")
    lines = DebugLines(text)
    called = collections.defaultdict(collections.Counter)
    for function, line in instructions(text):
        if not FMA.search(line) or function.startswith("_ZL4fmafff"):
            continue
        location = re.search(r"!dbg !(\d+)", line)
        place = lines.place(location.group(1)) if location else ("?", 0)
        called[place][function] += 1
    for place, functions in called.items():
        for function, count in functions.items():
            if count != written.get(place, 0):
                yield f"{place[0]}:{place[1]}: {count} fma, {written.get(place, 0)} written ({function})"
    for place in sorted(written.keys() - called.keys()):
        yield f"{place[0]}:{place[1]}: fmaf is written, but there is no fma"


def check_hip(architecture, source, compiler):
    command = [*compiler, f"--offload-arch={architecture}", "-O3", "-S", "-emit-llvm",
               "-gline-tables-only", "-Xclang", "-disable-llvm-passes", source]
    with tempfile.TemporaryDirectory() as folder:
        text = compile_text([*command, "-nogpulib"], f"{folder}/plain.ll")
        linked = compile_text(command, f"{folder}/linked.ll")
    breaches = [*flag_breaches(text), *attribute_breaches(text), *library_breaches(linked)]
    if "__oclc_correctly_rounded_sqrt32" not in linked and "llvm.sqrt.f32" not in linked:
        breaches.append("no square root was found")
    kernels = pathlib.Path(source).resolve().parent
    if kernels.name == "kernels":
        breaches += fma_breaches(text, kernels)
    return breaches


def check_ptx(source, compiler):
    with tempfile.TemporaryDirectory() as folder:
        text = compile_text([*compiler, "-ptx", source], f"{folder}/kernels.ptx")
    breaches = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        wrong = re.search(r"\.(approx|ftz)\b|\bmad\.\w*\.?f(32|64)", code)
        unrounded = re.search(r"\b(add|sub|mul|div|sqrt|fma)\.(?!rn\.)[\w.]*f32", code)
        if wrong or unrounded:
            breaches.append(f"PTX line {number}: {code.strip()}")
    for needed in ("sqrt.rn.f32", "div.rn.f32", "fma.rn.f32", "add.rn.f32", "mul.rn.f32"):
        if needed not in text:
            breaches.append(f"PTX: no {needed} was found")
    return breaches


def main():
    kind, *arguments = sys.argv[1:]
    if kind == "hip":
        breaches = check_hip(arguments[0], arguments[1], arguments[2:])
    else:
        breaches = check_ptx(arguments[0], arguments[1:])
    for breach in breaches[:40]:
        print(breach)
    if breaches:
        sys.exit(f"{len(breaches)} breaches")
    print("kept")


if __name__ == "__main__":
    main()
