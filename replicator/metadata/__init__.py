"""What the target needs beside messages: topics' settings, consumer groups and their offsets.

Plans are pure and can be shown; applying them is one request an action.
"""
