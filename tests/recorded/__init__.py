"""What users get, recorded: plans, bounds, documents, scripts, pages, messages, and the public surface.

``python -m recorded`` compares what the package does now with what is stored; ``make record PART=…`` stores
a part anew and says what changed. What goes in is stored in `given`, what comes out in `outcomes`.
"""
