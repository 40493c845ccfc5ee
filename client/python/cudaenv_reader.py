# SPDX-License-Identifier: MIT
"""The start hook in pure Python, where the extension cannot be loaded."""
